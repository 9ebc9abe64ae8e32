"""Security events: changes to people, sessions, tokens and mailboxes are recorded in the audit.

The audit lives above this package, so a signal reaches it: `approvals` connects its audit chain
when it starts.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from allauth.core import context
from django.db import transaction
from django.dispatch import Signal

from accounts.infra.networks import network_of
from accounts.models import Mailbox, User

# The receiver gets `mailbox`, `of_people`, `name`, `actor` and `data`. It writes one event in the
# open transaction.
audit_event = Signal()
# The receiver gets `mailboxes`, ids, and locks their chains.
audit_held = Signal()


def record_event(
    event: str,
    *,
    person: User | None,
    mailbox: Mailbox | None = None,
    subject: User | None = None,
    method: str = "",
    mailboxes: Iterable[Mailbox] = (),
    actor: str = "",
    network: str | None = None,
    **data: Any,
) -> None:
    """Record one security event, in the caller's transaction: once for people, and once for each
    mailbox it concerns.

    `person` is the person who acts (None: a command on the server). `subject` is the person it
    happens to, if that is somebody else. `method` says how, such as `password` or `totp`. The
    network comes from the current request, if there is one. Only callers that know better give
    `actor` and `network`: `stranger` is somebody who is not signed in. `data` holds ids, codes and
    counts, but no mail content and no address.
    """
    actor = actor or (f"user:{person.pk}" if person else "command")
    concerned = [*([mailbox] if mailbox else []), *mailboxes]
    about = {
        "subject": str(subject.pk) if subject else "",
        "method": method,
        "network": network_of(context.request) if network is None else network,
        "mailboxes": [str(each.pk) for each in concerned],
    }
    with transaction.atomic():
        # The chain of people comes last, because every writer must lock chains in the same order.
        for each in sorted(concerned, key=lambda one: one.pk):
            _send(mailbox=each, of_people=False, name=event, actor=actor, data=data)
        known = {name: value for name, value in about.items() if value}
        _send(mailbox=None, of_people=True, name=event, actor=actor, data={**known, **data})


def hold_audit(mailboxes: Iterable[UUID]) -> None:
    """Lock the chains of these mailboxes until the transaction ends, before it records several events:
    after the first of them the chain of people is locked, and that must come last.
    """
    audit_held.send(sender=None, mailboxes=sorted(set(mailboxes)))


def record_of_mailbox(*, event: str, mailbox: Mailbox, actor: str) -> None:
    """Record an event that concerns only one mailbox, in the caller's transaction."""
    _send(mailbox=mailbox, of_people=False, name=event, actor=actor, data={})


def _send(**event: Any) -> None:
    if not audit_event.send(sender=None, **event):
        raise RuntimeError(
            "The audit is not connected. No change to people or mailboxes may go unrecorded."
        )
