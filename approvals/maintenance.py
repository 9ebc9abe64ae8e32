"""The sweeper: puts right what time or a crash has left behind. Any number may run at once.

Each chore lists what it may have to do without a lock, and takes one row at a time: locked if nobody else has it, and
only while the reason still holds.
"""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from accounts.models import Mailbox
from approvals import audit, audit_proof, conditions
from approvals.execution import approved_action
from approvals.kinds import kind_named
from approvals.models import Attempt, Blob, Decision, PendingAction, Revision
from approvals.outcomes import record_outcome
from approvals.queues.base import queue
from approvals.retry import PROBES, next_probe, next_try
from approvals.returning import return_if_void
from approvals.states import FINAL, Status
from approvals.types import Outcome

log = structlog.get_logger(__name__)

BATCH = 100
SETTLE_TRIES = 8
# Looking needs the provider; a paused mailbox may be looked at, one that must be reconnected may not.
MAY_LOOK = (*conditions.REACHABLE, Mailbox.Status.PAUSED)


def sweep() -> None:
    """One round: expire, end dead leases, send back what is void, look for lost answers, settle, purge, ring.

    A chore that fails keeps none of the others from being done.
    """
    for chore in (expire, end_dead_leases, send_back, reconcile, settle, purge, *_of_others(), _anchor, _ring):
        try:
            chore()
        except DatabaseError:
            raise  # the worker waits and begins anew on another connection
        except Exception:  # one mailbox's trouble, whatever it is, must not stop the mail of all others
            log.exception("chore_failed", process=chore.__name__)


def _of_others() -> list[Callable[[], None]]:
    return [import_string(path) for path in settings.MAILHUB_CHORES]


def _anchor() -> None:
    audit_proof.anchor(at_most_every=audit_proof.ANCHOR_SECONDS)


def _ring() -> None:
    for action_id in due():
        queue().ring(action_id)


def due(limit: int = BATCH) -> list[UUID]:
    """Approved actions whose time has come and that nothing holds back, the longest waiting first."""
    rows = PendingAction.objects.filter(conditions.may_execute())
    return list(rows.order_by("not_before").values_list("pk", flat=True)[:limit])


def expire() -> None:
    """Close what nobody decided, or what could not leave, in time."""
    late = PendingAction.objects.filter(status__in=(Status.PENDING, Status.APPROVED), expires_at__lte=Now())
    for action_id in late.values_list("pk", flat=True)[:BATCH]:
        with transaction.atomic():
            action = late.select_for_update(skip_locked=True).filter(pk=action_id).first()
            if action is None:
                continue
            source = Status(action.status)
            error = {"code": "expired_approval", "detail": "It could not leave before it expired."}
            action.move(
                source, Status.EXPIRED, finished_at=Now(), error=error if source is Status.APPROVED else action.error
            )
            audit.record(mailbox=action.mailbox_id, event="expired", actor="worker", action_id=action.pk)


def end_dead_leases() -> None:
    """A worker died or froze: what never reached the wire is approved again, what may have is unknown."""
    dead = PendingAction.objects.filter(status=Status.EXECUTING, lease_until__lt=Now())
    for action_id in dead.values_list("pk", flat=True)[:BATCH]:
        with transaction.atomic():
            action = dead.select_for_update(skip_locked=True).filter(pk=action_id).first()
            if action is None:
                continue
            attempt = Attempt.objects.get(action=action, fence=action.fence)
            on_wire = attempt.phase == Attempt.Phase.WIRE_STARTED
            outcome = Outcome(verdict="unknown" if on_wire else "not_sent", code="worker_lost")
            record_outcome(action.pk, action.fence, outcome, evidence="lease_expired")
            log.warning("lease_expired", action=str(action.pk), fence=action.fence, phase=attempt.phase)


def send_back() -> None:
    """What was approved and may not leave any more waits for a person again, with the reason."""
    rows = PendingAction.objects.filter(conditions.due(), conditions.void(), status=Status.APPROVED)
    for action_id in rows.values_list("pk", flat=True)[:BATCH]:
        return_if_void(action_id)


def reconcile() -> None:
    """Ask the provider whether what was handed over has gone out; no evidence leaves it unknown."""
    waiting = PendingAction.objects.filter(
        status=Status.UNKNOWN, next_probe_at__lte=Now(), mailbox__in=Mailbox.objects.filter(status__in=MAY_LOOK)
    )
    for action in waiting.order_by("next_probe_at")[:BATCH]:
        _probe(action)


def _probe(action: PendingAction) -> None:
    """1. Taken by pushing the time on, as if the look had failed: a crash is not the end of looking. 2. Look.
    3. Evidence moves the action; a look that found nothing may have been the last."""
    made = action.probes + 1
    mine = PendingAction.objects.filter(pk=action.pk, status=Status.UNKNOWN, probes=action.probes, fence=action.fence)
    lost_for = ExpressionWrapper(Now() - F("ended_at"), DurationField())
    since_lost = action.attempts.filter(fence=action.fence).values_list(lost_for, flat=True).get()
    again = next_probe(made, since_lost=since_lost, failed=True)
    if not mine.filter(next_probe_at__lte=Now()).update(probes=min(made, len(PROBES)), next_probe_at=Now() + again):
        return
    try:
        outcome = kind_named(action.kind).reconcile(approved_action(action.pk))
    except Exception:  # a probe that fails is no evidence; the next one tries again
        log.exception("probe_failed", action=str(action.pk), count=made)
        return
    if outcome is not None:
        record_outcome(action.pk, action.fence, outcome, evidence="probe")
    elif next_probe(made, since_lost=since_lost) is None:
        mine_now = PendingAction.objects.filter(pk=action.pk, status=Status.UNKNOWN, fence=action.fence)
        mine_now.update(next_probe_at=None)


def settle() -> None:
    """Do the idempotent work after a success, such as the copy in Sent; never touches what was sent."""
    waiting = PendingAction.objects.filter(status=Status.SUCCEEDED, settle_at__lte=Now())
    for action_id in waiting.values_list("pk", flat=True)[:BATCH]:
        settle_one(action_id)


def settle_one(action_id: UUID) -> None:
    action = PendingAction.objects.get(pk=action_id)
    tries = action.settle_tries + 1
    # Taken by pushing the time on: whoever comes second finds nothing to do, and a crash is tried again later.
    mine = PendingAction.objects.filter(pk=action_id, settle_at__lte=Now(), settle_tries=action.settle_tries).update(
        settle_tries=tries,
        settle_at=Now() + max(next_try(tries), timedelta(minutes=1)) if tries < SETTLE_TRIES else None,
    )
    if not mine:
        return
    try:
        kind_named(action.kind).settle(approved_action(action_id))
    except Exception:  # what was sent stays sent; this is only the work after it
        log.exception("settle_failed", action=str(action_id), count=tries)
        return
    PendingAction.objects.filter(pk=action_id).update(settle_at=None)


def purge() -> None:
    """Forget the content of what ended long ago; the row, its state and its idempotency key stay, and so do the
    decisions without their notes."""
    old = PendingAction.objects.filter(
        status__in=FINAL,
        finished_at__isnull=False,
        finished_at__lt=Now() - timedelta(days=settings.MAILHUB_RETENTION_DAYS),
        purged_at__isnull=True,
    )
    ids = list(old.order_by("finished_at").values_list("pk", flat=True)[:BATCH])
    if not ids:
        return
    with transaction.atomic():
        mine = list(old.select_for_update(skip_locked=True).filter(pk__in=ids).values_list("pk", flat=True))
        Revision.objects.filter(action__in=mine).update(payload={}, preview={})
        Blob.objects.filter(action__in=mine).delete()
        Decision.objects.filter(action__in=mine).exclude(note="").update(note="")
        PendingAction.objects.filter(pk__in=mine).update(purged_at=Now(), settle_at=None, returned=None)
