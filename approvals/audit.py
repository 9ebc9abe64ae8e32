"""Writing the chain of what happened, in the same transaction as what happened."""

import hashlib
import hmac
import json
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.models import Mailbox
from approvals.models import AuditChain, AuditEvent
from approvals.models.audit import NO_MAILBOX


def record(
    *, mailbox: Mailbox | UUID | None, event: str, actor: str, action_id: UUID | None = None, **data: Any
) -> None:
    """Append one event to the chain of the mailbox, or to that of what has none.

    `actor` is `user:<id>`, `token:<id>`, `worker` or `command`; `data` holds ids, codes, counts and hashes.
    """
    mailbox_id = mailbox.id if isinstance(mailbox, Mailbox) else mailbox
    with transaction.atomic():
        # A row lock on PostgreSQL; on SQLite the transaction has the write lock already. A fork is impossible.
        chain, _ = AuditChain.objects.select_for_update().get_or_create(
            pk=mailbox_id or NO_MAILBOX, defaults={"mailbox_id": mailbox_id}
        )
        link = AuditEvent(
            chain=chain,
            mailbox_id=mailbox_id,
            sequence=chain.length + 1,
            at=timezone.now(),
            event=event,
            action_id=action_id,
            actor=actor,
            data=data,
            previous=chain.head,
        )
        link.hash = hash_of(link)
        link.save(force_insert=True)
        AuditChain.objects.filter(pk=chain.pk).update(length=link.sequence, head=link.hash)


def hash_of(link: AuditEvent) -> str:
    """The keyed hash of a link; without the key a rewritten chain cannot be made to fit."""
    said = [
        str(link.chain_id), link.sequence, link.at.isoformat(), link.event, str(link.action_id or ""),
        link.actor, link.data, link.previous,
    ]  # fmt: skip
    return seal(json.dumps(said, sort_keys=True, separators=(",", ":")))


def seal(text: str) -> str:
    """The keyed hash of a text, as 64 hex digits."""
    key = hashlib.sha256(b"mailhub audit chain" + settings.SECRET_KEY.encode()).digest()
    return hmac.new(key, text.encode(), "sha256").hexdigest()
