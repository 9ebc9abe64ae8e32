"""An action with its approved content, read in one query."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db.models import F

from accounts.infra.compiled_sql import Select, columns_of, instance, slot
from accounts.infra.credentials import CannotDecrypt
from accounts.models import Mailbox
from approvals.core.at_rest import open_part
from approvals.core.digest import digest_of
from approvals.core.types import ApprovedAction, LeaseLost
from approvals.gate import blobs
from approvals.models import Blob, PendingAction

with_content = Select(
    lambda: (
        PendingAction.objects.filter(
            pk=slot(PendingAction, "id", "pk"), revisions__number=F("revision")
        )
        .order_by()
        .values_list(
            *columns_of(PendingAction),
            *columns_of(Mailbox, "mailbox__"),
            "revisions__payload",
            "revisions__sealed_payload",
            "revisions__digest",
            "preparation__notes",
            "preparation__digest",
        )
    )
)
_blob = Select(
    lambda: Blob.objects.filter(
        action=slot(Blob, "action"), sha256=slot(Blob, "sha256")
    ).values_list("content")
)


def _refuse_call(order: Mapping[str, Any] = MappingProxyType({})) -> None:
    raise LeaseLost


def _refuse_notes(notes: Mapping[str, Any]) -> None:
    raise LeaseLost


@dataclass(frozen=True, kw_only=True)
class Read:
    """A row, the payload and digest of its current revision, and its preparation.

    `outdated` is the preparation for an earlier revision, `has_preparation` is True for either.
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
            wire_started=wire_started,
            blob=self._blob,
            keep=keep,
            prepared=self.prepared,
            receipt=action.receipt,
        )

    def _blob(self, sha256: str) -> bytes:
        """Return the bytes, read on demand: checking whether it is due needs no attachments."""
        found = _blob.first(action=self.action.pk, sha256=sha256)
        if found is None:
            raise KeyError(sha256)
        return blobs.read(Blob(action_id=self.action.pk, sha256=sha256, content=found[0]))


def read_action(action_id: UUID) -> Read | None:
    """Return the action as it is now, or None if it does not exist."""
    return read_from(with_content(pk=action_id))


def read_from(rows: Sequence[tuple[Any, ...]]) -> Read | None:
    """Return the action in these rows of `with_content`."""
    if not rows:
        return None
    found = rows[0]
    *_, payload, sealed, digest, notes, prepared_for = found
    action = instance(PendingAction, found)
    action.mailbox = instance(Mailbox, found[len(columns_of(PendingAction)) :])
    if sealed is not None:
        try:
            payload = open_part("payload", payload, sealed, action.pk, action.revision)
        except CannotDecrypt:  # its digest is not one that was approved
            payload = {}
    current = notes is not None and prepared_for == action.digest
    return Read(
        action=action,
        payload=payload,
        digest=digest,
        prepared=notes if current else {},
        outdated=None if current else notes,
        has_preparation=notes is not None,
    )


def load_approved(
    action_id: UUID, *, keep: Callable[[Mapping[str, Any]], None] = _refuse_notes
) -> ApprovedAction:
    """Return the frozen payload of an action, as a kind gets it."""
    read = read_action(action_id)
    assert read is not None, "an action is never deleted"
    return read.to_approved(keep=keep)
