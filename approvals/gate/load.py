"""An action with the content and the bytes that its decision or its execution is about."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any
from uuid import UUID

import structlog
from django.db.models import OuterRef, Subquery

from accounts.connect.connecting import is_of_account
from accounts.infra.credentials import CannotDecrypt
from accounts.infra.problems import Problem, not_found
from accounts.infra.texts import translatable
from approvals.core.at_rest import open_part
from approvals.core.signatures import digest_of
from approvals.core.states import Status
from approvals.core.types import ApprovedAction, LeaseLost, Rendered, get_kind
from approvals.models import Blob, PendingAction, Revision

log = structlog.get_logger(__name__)

RETRY_SECONDS = 30
UNSEEN = translatable("The content cannot be read here, so nobody can approve it.")


def _refuse_call(order: Mapping[str, Any] = MappingProxyType({})) -> None:
    raise LeaseLost


def _refuse_notes(notes: Mapping[str, Any]) -> None:
    raise LeaseLost


class ContentUnavailable(Problem):
    """Raised if the bytes are not those that were stored; `reason` is the code in the `error` of an
    action.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__("transient", detail, retry_after=RETRY_SECONDS)
        self.reason = reason


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
            blob=partial(blob_of, action),
            keep=keep,
            prepared=self.prepared,
            receipt=action.receipt,
            is_leaving=action.status != Status.PENDING,
        )


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


def lock_action(action_id: UUID) -> PendingAction:
    """Return the action with its row locked, and its mailbox; raises `not_found`."""
    locked = PendingAction.objects.select_for_update(no_key=True, of=("self",))
    action = locked.select_related("mailbox").filter(pk=action_id).first()
    if action is None:
        raise not_found("The action does not exist, or you may not see it.")
    return action


def blob_of(action: PendingAction, sha256: str) -> bytes:
    """Return bytes that the action's payload names; raises KeyError if they have been purged.

    Raises ContentUnavailable and CannotDecrypt.
    """
    blob = Blob.objects.filter(action=action, sha256=sha256).first()
    if blob is None:
        raise KeyError(sha256)
    content = bytes(blob.content)
    # The digest of the payload names the bytes by their hash, so bytes that are only stored under
    # that name need this check.
    if hashlib.sha256(content).hexdigest() != sha256:
        log.error("content_changed", action=str(action.pk))
        raise ContentUnavailable(
            "content_changed",
            translatable(
                "The stored content of this message is not what mailhub stored, or its key is missing."
            ),
        )
    return content


def render_content(action: PendingAction) -> Rendered | None:
    """Return the present content; None if it has been purged, or cannot be read here.

    Raises ContentUnavailable.
    """
    current = action.current
    if not current.payload or current.unreadable:
        return None
    try:
        return get_kind(action.kind).render(current.payload, partial(blob_of, action))
    except (CannotDecrypt, KeyError):  # the bytes are damaged or missing; the page says so
        log.exception("content_unreadable", action=str(action.pk))
        return None
    except ContentUnavailable:
        raise
    except Problem:  # another version stored it; the page says so
        log.exception("content_unreadable", action=str(action.pk))
        return None


def refuse_unseen(action: PendingAction) -> None:
    """Raise `conflict` if no page can show the present content.

    Somebody without a key can only write a preview that is not encrypted, so it counts as unseen.
    """
    try:
        if action.current.is_ours and render_content(action) is not None:
            return
    except ContentUnavailable:
        pass
    raise Problem("conflict", UNSEEN)
