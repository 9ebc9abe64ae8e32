"""An action with its approved content, read in one query."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery

from accounts.connect.connecting import is_of_account
from accounts.infra.credentials import CannotDecrypt
from approvals.core.at_rest import open_part
from approvals.core.signatures import digest_of
from approvals.core.states import Status
from approvals.core.types import ApprovedAction, LeaseLost
from approvals.gate import blobs
from approvals.models import Blob, PendingAction, Revision


def _refuse_call(order: Mapping[str, Any] = MappingProxyType({})) -> None:
    raise LeaseLost


def _refuse_notes(notes: Mapping[str, Any]) -> None:
    raise LeaseLost


@dataclass(frozen=True, kw_only=True)
class Read:
    """A row, the payload and digest of its current revision, and its preparation.

    `outdated` is the preparation for an earlier revision. One in another account than the one that
    is connected now is neither. `has_preparation` is True for each.
    """

    action: PendingAction
    payload: dict[str, Any]
    digest: str
    prepared: dict[str, Any]
    outdated: dict[str, Any] | None
    has_preparation: bool

    def to_approved(
        self,
        *,
        wire_started: Callable[..., None] = _refuse_call,
        keep: Callable[[Mapping[str, Any]], None] = _refuse_notes,
    ) -> ApprovedAction:
        """Return the frozen payload; raises ValueError if it does not fit the approved digest."""
        action = self.action
        if not action.digest == self.digest == digest_of(self.payload):
            raise ValueError("the revision is not the one that was approved")
        return ApprovedAction(
            id=action.pk,
            kind=action.kind,
            mailbox=action.mailbox,
            payload=self.payload,
            digest=self.digest,
            message_id=action.message_id,
            proposed_at=action.created_at,
            wire_started=wire_started,
            blob=self._blob,
            keep=keep,
            prepared=self.prepared,
            receipt=action.receipt,
            is_leaving=action.status != Status.PENDING,
        )

    def _blob(self, sha256: str) -> bytes:
        """Return the bytes, read on demand: checking whether it is due needs no attachments."""
        blob = Blob.objects.filter(action=self.action, sha256=sha256).first()
        if blob is None:
            raise KeyError(sha256)
        return blobs.read(blob)


def read_action(action_id: UUID) -> Read | None:
    """Return the action as it is now, or None if it does not exist.

    One statement reads all of it, so the content is the one of the row.
    """
    revision = Revision.objects.filter(action=OuterRef("pk"), number=OuterRef("revision"))
    action = (
        PendingAction.objects.select_related("mailbox", "preparation")
        .annotate(
            stored_payload=Subquery(revision.values("payload")),
            sealed_payload=Subquery(revision.values("sealed_payload")),
            stored_digest=Subquery(revision.values("digest")),
        )
        .filter(pk=action_id)
        .first()
    )
    if action is None:
        return None
    payload, sealed = action.stored_payload, action.sealed_payload
    if sealed is not None:
        try:
            payload = open_part("payload", payload, sealed, action.pk, action.revision)
        except CannotDecrypt:  # its digest is not one that was approved
            payload = {}
    preparation = getattr(action, "preparation", None)
    here = preparation
    if preparation and not is_of_account(action.mailbox, preparation.account):
        here = None
    is_current = here is not None and here.digest == action.digest
    return Read(
        action=action,
        payload=payload,
        digest=action.stored_digest,
        prepared=here.notes if here and is_current else {},
        outdated=here.notes if here and not is_current else None,
        has_preparation=preparation is not None,
    )


def load_approved(
    action_id: UUID, *, keep: Callable[[Mapping[str, Any]], None] = _refuse_notes
) -> ApprovedAction:
    """Return the frozen payload of an action, as a kind gets it."""
    read = read_action(action_id)
    assert read is not None, "an action is never deleted"
    return read.to_approved(keep=keep)
