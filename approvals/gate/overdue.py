"""The passing of time: an action expires, its lease ends, and its content is deleted.

Each task lists its possible work without a lock, and takes one row at a time: with a lock if nobody
else has it, and only while the reason still holds.
"""

from copy import copy
from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from accounts.infra.texts import translatable
from approvals.audit import chain
from approvals.core.states import FINAL, Status
from approvals.core.types import Outcome
from approvals.gate import notes
from approvals.gate.dead_letters import process_each
from approvals.gate.outcome import record_outcome
from approvals.gate.pauses import restored
from approvals.models import (
    Assignment,
    Attempt,
    Blob,
    Comment,
    Decision,
    PendingAction,
    Preparation,
    Revision,
    Watch,
)

log = structlog.get_logger(__name__)

BATCH = 100
LONGEST_LEASE = timedelta(hours=1)  # the most that MAILHUB_LEASE_SECONDS may be


def find_late() -> QuerySet[PendingAction]:
    # In the order of its index: nearly all actions have expired once, but few in these states.
    return PendingAction.objects.filter(
        status__in=(Status.PENDING, Status.APPROVED), expires_at__lte=Now()
    ).order_by("expires_at")


def find_dead() -> QuerySet[PendingAction]:
    """Return the actions whose lease has ended, or was set by a clock that was ahead: it would block
    the mailbox for as long.
    """
    ended = Q(lease_until__lt=Now()) | Q(lease_until__gt=Now() + LONGEST_LEASE)
    return PendingAction.objects.filter(ended, status=Status.EXECUTING)


def find_old() -> QuerySet[PendingAction]:
    kept = timedelta(days=settings.MAILHUB_RETENTION_DAYS)
    return PendingAction.objects.filter(
        status__in=FINAL,
        finished_at__isnull=False,
        finished_at__lt=Now() - kept,
        purged_at__isnull=True,
    ).order_by("finished_at")


def expire() -> None:
    """Close actions that nobody decided in time, or that could not leave in time."""
    process_each("late", find_late(), _expire, limit=BATCH)


def _expire(action_id: UUID) -> None:
    action = (
        find_late().select_for_update(no_key=True, skip_locked=True).filter(pk=action_id).first()
    )
    if action is None:
        return
    source = Status(action.status)
    error = {
        "code": "expired_approval",
        "detail": translatable("It could not leave before it expired."),
    }
    action.move(
        source,
        Status.EXPIRED,
        finished_at=Now(),
        error=error if source is Status.APPROVED else action.error,
    )
    chain.record(mailbox=action.mailbox_id, event="expired", actor="worker", action_id=action.pk)


def end_dead_leases() -> None:
    """End the leases of workers that died or froze.

    An action that never reached the wire is approved again; otherwise its outcome is unknown.
    """
    process_each("dead", find_dead(), _end_dead_lease, limit=BATCH)


def _end_dead_lease(action_id: UUID) -> None:
    action = (
        find_dead().select_for_update(no_key=True, skip_locked=True).filter(pk=action_id).first()
    )
    if action is None:
        return
    attempt = Attempt.objects.get(action=action, fence=action.fence)
    on_wire = attempt.phase == Attempt.Phase.WIRE_STARTED
    if not on_wire and not _is_certainly_unsent(action):
        started = {"phase": Attempt.Phase.WIRE_STARTED, "wire_started_at": Now()}
        on_wire = bool(Attempt.objects.filter(pk=attempt.pk).update(**started))
    outcome = Outcome.broken_off(on_wire=on_wire, code="worker_lost")
    record_outcome(action.pk, action.fence, outcome, evidence="lease_expired")
    log.warning("lease_expired", action=str(action.pk), fence=action.fence, phase=attempt.phase)


def _is_certainly_unsent(action: PendingAction) -> bool:
    """Return False if somebody without a key has written or set back the claim in the database.

    A claim uses up the order that was signed for the fence before, and the send journal knows what
    was handed over.
    """
    ordered = copy(action)
    ordered.fence -= 1
    return ordered.has_order() and not restored.was_granted(action.pk, fence=action.fence)


def purge() -> None:
    """Delete the content of actions that ended long ago.

    The row, its state and its idempotency key are kept, and so are the decisions without their
    notes.
    """
    process_each("old", find_old(), purge_one, limit=BATCH)


def purge_one(action_id: UUID) -> None:
    """Delete the content of one action that has ended.

    A promised follow-up stays, because it needs no content, and so does a doubt.
    """
    mine = PendingAction.objects.filter(pk=action_id, purged_at__isnull=True)
    action = mine.select_for_update(no_key=True, skip_locked=True).first()
    if action is None:
        return
    Revision.objects.filter(action=action_id).update(
        payload={}, preview={}, sealed_payload=None, sealed_preview=None
    )
    Blob.objects.filter(action=action_id).delete()
    Preparation.objects.filter(action=action_id, action__status=Status.SUCCEEDED).delete()
    Decision.objects.filter(action=action_id).exclude(note="", passage="").update(
        note="", passage=""
    )
    notes.delete(action_id)
    Comment.objects.filter(action=action_id).delete()
    Assignment.objects.filter(action=action_id).delete()
    watch = Watch.objects.filter(action=action_id)
    watch.update(answered_by="", note="", reports="")
    watch.filter(follow_up_at=None).update(ends_at=None)
    # The server's words may name a recipient.
    error = {"code": action.error.get("code", "")} if action.error else action.error
    mine.update(purged_at=Now(), settle_at=None, returned=None, error=error)
