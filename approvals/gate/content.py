"""The content of an action as a person reads it, and the refusal to approve unreadable content."""

import structlog

from accounts.infra.credentials import CannotDecrypt
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from approvals.core.kinds import get_kind
from approvals.core.types import Rendered
from approvals.gate.blobs import ContentUnavailable
from approvals.gate.find import blob_of
from approvals.models import PendingAction

UNSEEN = translatable("The content cannot be read here, so nobody can approve it.")

log = structlog.get_logger(__name__)


def render_content(action: PendingAction) -> Rendered | None:
    """Return the present content; None if it has been purged, or cannot be read here.

    Raises ContentUnavailable.
    """
    current = action.current
    if not current.payload or current.unreadable:
        return None
    try:
        return get_kind(action.kind).render(current.payload, lambda sha256: blob_of(action, sha256))
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
        if action.current.sealed_preview is not None and render_content(action) is not None:
            return
    except ContentUnavailable:
        pass
    raise Problem("conflict", UNSEEN)
