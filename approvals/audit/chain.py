"""Writing of the audit chain, in the same transaction as the recorded change."""

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.infra.compiled_sql import Insert, Select, Update, slot
from accounts.models import Mailbox
from approvals.models import AuditChain, AuditEvent, PendingAction
from approvals.models.audit import NO_MAILBOX, PEOPLE

end_of_chain = Select(
    lambda: (
        AuditChain.objects.select_for_update(no_key=True)
        .filter(pk=slot(AuditChain, "id", "pk"))
        .values_list("length", "head")
    )
)
end_of_action = Select(
    lambda: (
        AuditChain.objects.select_for_update(no_key=True)
        .filter(
            pk__in=PendingAction.objects.filter(pk=slot(PendingAction, "id", "action")).values(
                "mailbox"
            )
        )
        .values_list("length", "head")
    )
)
_append = Insert(AuditEvent, "chain mailbox sequence at event action_id actor data previous hash")
_move_head = Update(
    lambda: AuditChain.objects.filter(pk=slot(AuditChain, "id", "pk")),
    lambda: {"length": slot(AuditChain, "length"), "head": slot(AuditChain, "head")},
    returning="",
)


@dataclass(kw_only=True)
class LockedEnd:
    """The end of a chain whose row this transaction has locked; `record` moves it on."""

    length: int
    head: str


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
    end: LockedEnd | None = None,
    **data: Any,
) -> AuditEvent:
    """Append one event to the chain of the mailbox, and return it.

    Without a mailbox it goes to the chain of people or of the server. `actor` is `user:<id>`,
    `token:<id>`, `worker` or `command`; `data` holds ids, codes, counts and hashes. `end` is the
    end of this chain, if it was locked with something else.
    """
    mailbox_id = mailbox.id if isinstance(mailbox, Mailbox) else mailbox
    chain_id = mailbox_id or (PEOPLE if of_people else NO_MAILBOX)
    with transaction.atomic(savepoint=False):  # the event and the change are committed together
        end = end or _lock_end(chain_id, mailbox_id)
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
        _append(
            chain=chain_id,
            mailbox=mailbox_id,
            sequence=link.sequence,
            at=link.at,
            event=event,
            action_id=action_id,
            actor=actor,
            data=data,
            previous=end.head,
            hash=link.hash,
        )
        _move_head(pk=chain_id, length=link.sequence, head=link.hash)
    end.length, end.head = link.sequence, link.hash
    return link


def read_end(rows: Sequence[tuple[Any, ...]]) -> LockedEnd | None:
    """Return the end that `end_of_chain` or `end_of_action` found; None if nothing is recorded yet."""
    return LockedEnd(length=rows[0][0], head=rows[0][1]) if rows else None


def _lock_end(chain_id: UUID, mailbox_id: UUID | None) -> LockedEnd:
    """Return the end of a chain, locked, so that it cannot fork.

    On PostgreSQL the row is locked. On SQLite the transaction has the write lock already.
    """
    end = read_end(end_of_chain(pk=chain_id))
    if end is None:
        # Another transaction may create it too.
        first = AuditChain(pk=chain_id, mailbox_id=mailbox_id)
        AuditChain.objects.bulk_create([first], ignore_conflicts=True)
        end = read_end(end_of_chain(pk=chain_id))
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
