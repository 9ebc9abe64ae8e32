"""The frozen payload of an action, as its kind gets it."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from approvals.digest import digest_of
from approvals.models import Blob, PendingAction, Preparation
from approvals.types import ApprovedAction, LeaseLost


def _not_to_be_called() -> None:
    raise LeaseLost


def approved_action(
    action_id: UUID, *, wire_started: Callable[[], None] = _not_to_be_called, held: Q | None = None
) -> ApprovedAction:
    """The frozen payload of an action, checked against the digest that was approved.

    `held` says under which condition something may still be kept for it.
    """
    action = PendingAction.objects.get(pk=action_id)
    revision = action.current
    if not action.digest == revision.digest == digest_of(revision.payload):
        raise ValueError("the revision is not the one that was approved")
    blobs = {blob.sha256: bytes(blob.content) for blob in Blob.objects.filter(action=action)}
    prepared = Preparation.objects.filter(action=action, digest=action.digest).values_list("notes", flat=True).first()

    def keep(notes: Mapping[str, Any]) -> None:
        if held is None:
            raise LeaseLost
        _keep(action, notes, held)

    return ApprovedAction(
        id=action.pk,
        kind=action.kind,
        mailbox_id=action.mailbox_id,
        payload=revision.payload,
        digest=revision.digest,
        message_id=action.message_id,
        wire_started=wire_started,
        blob=blobs.__getitem__,
        keep=keep,
        prepared=prepared or {},
        receipt=action.receipt,
    )


@transaction.atomic
def _keep(action: PendingAction, notes: Mapping[str, Any], held: Q) -> None:
    if not PendingAction.objects.select_for_update().filter(held, pk=action.pk, digest=action.digest).exists():
        raise LeaseLost
    Preparation.objects.update_or_create(action=action, defaults={"digest": action.digest, "notes": dict(notes)})
