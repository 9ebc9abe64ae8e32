"""The sweeper: puts right what time or a crash has left behind. Any number may run at once."""

from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from approvals import audit
from approvals.execution import approved_action, may_execute, record_outcome
from approvals.kinds import kind_named
from approvals.models import Attempt, Blob, PendingAction, Revision
from approvals.queues.base import queue
from approvals.retry import next_probe, next_try
from approvals.states import FINAL, Status
from approvals.types import Outcome

log = structlog.get_logger(__name__)

BATCH = 100
SETTLE_TRIES = 8


def sweep() -> None:
    """One round: expire, end dead leases, look for lost answers, settle, purge, ring for what is due."""
    expire()
    end_dead_leases()
    reconcile()
    settle()
    purge()
    for action_id in due():
        queue().ring(action_id)


def due(limit: int = BATCH) -> list[UUID]:
    """Approved actions whose time has come, the longest waiting first."""
    return list(PendingAction.objects.filter(may_execute()).order_by("not_before").values_list("pk", flat=True)[:limit])


def expire() -> None:
    """Close what nobody decided, or what could not leave, in time."""
    late = PendingAction.objects.filter(
        status__in=(Status.PENDING, Status.APPROVED), expires_at__lte=Now()
    ).select_related("mailbox")
    for action in late[:BATCH]:
        with transaction.atomic():
            source = Status(action.status)
            if action.move(source, Status.EXPIRED, Q(expires_at__lte=Now()), finished_at=timezone.now()):
                if source is Status.APPROVED:
                    PendingAction.objects.filter(pk=action.pk).update(
                        error={"code": "expired_approval", "detail": "It could not leave before it expired."}
                    )
                audit.record(mailbox=action.mailbox, event="expired", actor="worker", action_id=action.pk)


def end_dead_leases() -> None:
    """A worker died or froze: what never reached the wire is approved again, what may have is unknown."""
    dead = PendingAction.objects.filter(status=Status.EXECUTING, lease_until__lt=Now())
    for action_id in dead.values_list("pk", flat=True)[:BATCH]:
        with transaction.atomic():
            action = dead.select_for_update().filter(pk=action_id).first()
            if action is None:
                continue
            attempt = Attempt.objects.get(action=action, fence=action.fence)
            on_wire = attempt.phase == Attempt.Phase.WIRE_STARTED
            outcome = Outcome(verdict="unknown" if on_wire else "not_sent", code="worker_lost")
            record_outcome(action.pk, action.fence, outcome, evidence="lease_expired")
            log.warning("lease_expired", action=str(action.pk), fence=action.fence, phase=attempt.phase)


def reconcile() -> None:
    """Ask the provider whether what was handed over has gone out; no evidence leaves it unknown."""
    waiting = PendingAction.objects.filter(status=Status.UNKNOWN, next_probe_at__lte=Now())
    for action in waiting[:BATCH]:
        wait = next_probe(action.probes + 1)
        mine = waiting.filter(pk=action.pk, probes=action.probes).update(
            probes=action.probes + 1, next_probe_at=timezone.now() + wait if wait else None
        )
        if not mine:
            continue
        try:
            outcome = kind_named(action.kind).reconcile(approved_action(action.pk))
        except Exception:  # a probe that fails is no evidence; the next one tries again
            log.exception("probe_failed", action=str(action.pk))
            continue
        if outcome is not None:
            record_outcome(action.pk, action.fence, outcome, evidence="probe")


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
        settle_at=timezone.now() + max(next_try(tries), timedelta(minutes=1)) if tries < SETTLE_TRIES else None,
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
    """Forget the content of what ended long ago; the row, its state and its idempotency key stay."""
    before = timezone.now() - timedelta(days=settings.MAILHUB_RETENTION_DAYS)
    ended = PendingAction.objects.filter(status__in=FINAL, finished_at__lt=before)
    old = ended.filter(pk__in=Revision.objects.exclude(payload={}).values("action")).values("pk")[:BATCH]
    ids = list(old.values_list("pk", flat=True))
    if ids:
        with transaction.atomic():
            Revision.objects.filter(action__in=ids).update(payload={}, preview={})
            Blob.objects.filter(action__in=ids).delete()
