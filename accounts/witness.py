"""Security events: what happens to people, sessions, tokens and mailboxes is recorded in the audit.

The audit lives above this package, so it is found by its path (`settings.MAILHUB_WITNESS`).
"""

from collections.abc import Iterable
from typing import Any

from allauth.core import context
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from accounts.models import Mailbox, User
from accounts.networks import network_of


def told(
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
    """Record one security event, in the caller's transaction: once for people, and once for each mailbox it concerns.

    `person` acts (None: a command on the server), `subject` is the person it happens to if that is somebody else, and
    `method` says how, such as `password` or `totp`. The network comes from the current request, if there is one.
    `actor` and `network` are given only by callers that know better: `stranger` is somebody who is not signed in.
    `data` holds ids, codes and counts: no mail content and no address.
    """
    record = import_string(settings.MAILHUB_WITNESS)
    actor = actor or (f"user:{person.pk}" if person else "command")
    concerned = [*([mailbox] if mailbox else []), *mailboxes]
    about = {
        "subject": str(subject.pk) if subject else "",
        "method": method,
        "network": network_of(context.request) if network is None else network,
        "mailboxes": [str(each.pk) for each in concerned],
    }
    with transaction.atomic():
        # The chain of people comes last: every writer locks chains in this order.
        for each in sorted(concerned, key=lambda one: one.pk):
            record(mailbox=each, event=event, actor=actor, **data)
        known = {name: value for name, value in about.items() if value}
        record(mailbox=None, of_people=True, event=event, actor=actor, **known, **data)
