"""Writing of the audit chain, in the same transaction as the recorded change."""

import hashlib
import hmac
import json
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.models import Mailbox
from approvals.models import AuditChain, AuditEvent
from approvals.models.audit import NO_MAILBOX, PEOPLE


def record_from_accounts(
    sender: object,
    *,
    mailbox: Mailbox | None,
    of_people: bool,
    name: str,
    actor: str,
    data: dict[str, Any],
    **_: object,
) -> None:
    """Receive `accounts.audit_hook.audit_event`. An error also rolls the change back."""
    record(mailbox=mailbox, event=name, actor=actor, of_people=of_people, **data)


def record(
    *,
    mailbox: Mailbox | UUID | None,
    event: str,
    actor: str,
    action_id: UUID | None = None,
    of_people: bool = False,
    **data: Any,
) -> AuditEvent:
    """Append one event to the chain of the mailbox, and return it.

    Without a mailbox it goes to the chain of people or of the server. `actor` is `user:<id>`,
    `token:<id>`, `worker` or `command`; `data` holds ids, codes, counts and hashes.
    """
    mailbox_id = mailbox.id if isinstance(mailbox, Mailbox) else mailbox
    chain_id = mailbox_id or (PEOPLE if of_people else NO_MAILBOX)
    with transaction.atomic(savepoint=False):  # the event and the change are committed together
        end = _lock_end(chain_id, mailbox_id)
        link = AuditEvent(
            chain_id=chain_id,
            mailbox_id=mailbox_id,
            sequence=end.length + 1,
            at=timezone.now(),
            event=event,
            action_id=action_id,
            actor=actor,
            data=data,
            previous=end.head,
        )
        link.hash = hash_of(link)
        link.save(force_insert=True)
        AuditChain.objects.filter(pk=chain_id).update(length=link.sequence, head=link.hash)
    return link


def lock_end(chain_id: UUID) -> AuditChain | None:
    """Return the chain with its row locked, so that it cannot fork; None if nothing is recorded yet.

    On SQLite the transaction has the write lock already.
    """
    return AuditChain.objects.select_for_update(no_key=True).filter(pk=chain_id).first()


def _lock_end(chain_id: UUID, mailbox_id: UUID | None) -> AuditChain:
    """Return the same; a new chain is begun. Another transaction may begin it too."""
    end = lock_end(chain_id)
    if end is None:
        first = AuditChain(pk=chain_id, mailbox_id=mailbox_id)
        AuditChain.objects.bulk_create([first], ignore_conflicts=True)
        end = lock_end(chain_id)
        assert end is not None
    return end


class Link(NamedTuple):
    """One event as a verifier reads it: a tuple costs a tenth of a model."""

    chain_id: UUID
    sequence: int
    at: datetime
    event: str
    action_id: UUID | None
    actor: str
    data: Any
    previous: str
    hash: str


def hash_of(link: AuditEvent | Link) -> str:
    """Return the keyed hash of a link; without the key nobody can make a rewritten chain fit."""
    said = [
        str(link.chain_id),
        link.sequence,
        link.at.isoformat(),
        link.event,
        str(link.action_id or ""),
        link.actor,
        link.data,
        link.previous,
    ]
    return keyed_hash(_encode(said))


def keyed_hash(text: str) -> str:
    """Return the keyed hash of a text, as 64 hex digits."""
    return hmac.digest(_key(settings.SECRET_KEY), text.encode(), "sha256").hex()


@lru_cache(maxsize=4)
def _key(secret: str) -> bytes:
    return hashlib.sha256(b"mailhub audit chain" + secret.encode()).digest()


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
