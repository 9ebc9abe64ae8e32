"""The sweeper: repairs the state after a crash or the passing of time. Any number may run at once.

Each task lists its possible work without a lock, and takes one row at a time: with a lock if nobody
else has it, and only while the reason still holds.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections
from django.db.models import DurationField, ExpressionWrapper, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from accounts.access import request_log
from accounts.infra.compiled_sql import Questions, Select, Slot, database_now
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.audit import anchors, chain
from approvals.core.kinds import get_kind
from approvals.core.queue import queue
from approvals.core.states import FINAL, Status
from approvals.core.types import Outcome
from approvals.gate import dead_letters, notes, preparation, void
from approvals.gate import settle as settling
from approvals.gate.backoff import PROBES, lookup_wait
from approvals.gate.load import load_approved
from approvals.gate.outcome import record_outcome
from approvals.gate.reconcile import is_named_by
from approvals.gate.rules import conditions
from approvals.gate.rules.policy import advance_windows, find_closed
from approvals.models import Attempt, Blob, Decision, PendingAction, Preparation, Revision, Watch
from approvals.outbound.webhooks import courier, outbox
from approvals.pages.discussion import comments
from approvals.worker import dispatch, notification_chores, watch
from approvals.worker.background import Background
from approvals.worker.steady_clock import SteadyClock

log = structlog.get_logger(__name__)

BATCH = 100
CLOCK = SteadyClock(database_now)
FINAL_CHORES = ("late", "old", "to_forget")  # they end or delete something because of its age
LISTED = (
    1000  # of the work that waits for providers: a mailbox with much of it must not hide others
)
OTHERS_SECONDS = 3600.0


def sweep(*, resident: bool = False) -> datetime | None:
    """Run one round of all tasks, and return when the next waiting approved action may leave.

    The tasks: expire, end dead leases, open the next send windows, send back void approvals,
    reconcile, settle, tidy, look for answers and reports, purge, notify workers, deliver webhooks,
    notify people. One statement asks which work exists, and asks again after each task. One failing
    task does not stop the others.

    A `resident` process only begins the work that waits for providers, and does not wait for its
    end. It leaves FINAL_CHORES while the database's clock is not steady.
    """
    if resident and CLOCK.is_new:
        CLOCK.is_steady()
    kept = timedelta(days=settings.MAILHUB_RETENTION_DAYS)
    next_due: datetime | None
    there_is, next_due = _questions(kept=kept)
    for name, chore in CHORES.items():
        if not there_is[name] or (name in FINAL_CHORES and not _may_end(resident)):
            continue
        if isinstance(chore, Background):
            _run(chore.start if resident else chore.finish)
            continue
        _run(chore)
        there_is, next_due = _questions(kept=kept)
    _run(_anchor)
    if time.monotonic() >= _others_due() and _may_end(resident):
        _run(purge_others)
    return next_due


def _may_end(resident: bool) -> bool:
    """Return True if what is old may be ended or deleted; a person who runs the command decides."""
    return not resident or CLOCK.is_steady()


def _run(chore: Callable[[], object]) -> None:
    try:
        chore()
    except (OperationalError, InterfaceError):
        raise  # the database is away: the worker waits and begins again on another connection
    except Exception:  # a failure of one mailbox must not stop the mail of all others
        log.exception("chore_failed", process=chore.__name__)
        close_old_connections()


def purge_others() -> None:
    """Let the other packages delete old rows.

    These are kept for days, so once an hour is often enough.
    """
    _others["at"] = time.monotonic()
    for path in settings.MAILHUB_CHORES:
        import_string(path)()


_others: dict[str, float] = {}


def _others_due() -> float:
    return _others.get("at", -OTHERS_SECONDS) + OTHERS_SECONDS


def _anchor() -> None:
    anchors.sync()
    anchors.anchor(at_most_every=anchors.ANCHOR_SECONDS)


def _notify() -> None:
    """Notify for one action of each mailbox; once it has left, the worker notifies for the next."""
    for head in dispatch.heads()[:BATCH]:
        queue().notify(head.action)


def measure_overdue() -> dict[str, float]:
    """Return how many seconds ago the oldest lookup, copy and clean-up should have begun.

    Threads and connections can look healthy while the work is not done; this shows the work.
    """
    firsts = {
        "lookup": _find_to_look_up().order_by("next_probe_at").values_list("next_probe_at"),
        "settle": _find_to_settle().order_by("settle_at").values_list("settle_at"),
        "tidy": preparation.preparations_to_tidy().order_by("tidy_at").values_list("tidy_at"),
    }
    now = database_now()
    return {
        name: max(((now - at).total_seconds() for (at,) in found[:1] if at), default=0.0)
        for name, found in firsts.items()
    }


def due(limit: int = BATCH) -> list[UUID]:
    """Return the approved actions that may leave now, the longest waiting first; at most BATCH."""
    return [action_id for (action_id,) in _due()[:limit]]


def next_due() -> datetime | None:
    """Return when the next approved action may leave that may not leave yet."""
    return next((not_before for (not_before,) in _waiting()), None)


def _find_late() -> QuerySet[PendingAction]:
    # In the order of its index: nearly all actions have expired once, but few in these states.
    return PendingAction.objects.filter(
        status__in=(Status.PENDING, Status.APPROVED), expires_at__lte=Now()
    ).order_by("expires_at")


def _dead() -> QuerySet[PendingAction]:
    return PendingAction.objects.filter(status=Status.EXECUTING, lease_until__lt=Now())


def _find_to_look_up() -> QuerySet[PendingAction]:
    return PendingAction.objects.filter(
        conditions.has_any(_mailbox_that_may_look()),
        status=Status.UNKNOWN,
        next_probe_at__lte=Now(),
    )


def _find_to_settle() -> QuerySet[PendingAction]:
    """Return the work after sends. A mailbox that must be reconnected uses up no attempt."""
    return PendingAction.objects.filter(
        conditions.has_any(_mailbox_that_may_look()),
        status=Status.SUCCEEDED,
        settle_at__lte=Now(),
    )


def _mailbox_that_may_look() -> QuerySet[Mailbox]:
    return Mailbox.objects.filter(pk=OuterRef("mailbox"), status__in=conditions.MAY_LOOK)


def _find_not_yet_due() -> QuerySet[PendingAction, Any]:
    waiting = PendingAction.objects.filter(status=Status.APPROVED, not_before__gt=Now())
    return waiting.order_by("not_before").values_list("not_before")


def _find_old(kept: timedelta | Slot) -> QuerySet[PendingAction]:
    return PendingAction.objects.filter(
        status__in=FINAL,
        finished_at__isnull=False,
        finished_at__lt=Now() - kept,
        purged_at__isnull=True,
    )


def expire() -> None:
    """Close actions that nobody decided in time, or that could not leave in time."""
    dead_letters.process_each("late", _find_late(), _expire, limit=BATCH)


def _expire(action_id: UUID) -> None:
    action = (
        _find_late().select_for_update(no_key=True, skip_locked=True).filter(pk=action_id).first()
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
    dead_letters.process_each("dead", _dead(), _end_dead_lease, limit=BATCH)


def _end_dead_lease(action_id: UUID) -> None:
    action = _dead().select_for_update(no_key=True, skip_locked=True).filter(pk=action_id).first()
    if action is None:
        return
    attempt = Attempt.objects.get(action=action, fence=action.fence)
    on_wire = attempt.phase == Attempt.Phase.WIRE_STARTED
    outcome = Outcome.broken_off(on_wire=on_wire, code="worker_lost")
    record_outcome(action.pk, action.fence, outcome, evidence="lease_expired")
    log.warning("lease_expired", action=str(action.pk), fence=action.fence, phase=attempt.phase)


def _probe(action_id: UUID) -> None:
    """Ask the provider whether the handed over mail was sent; without evidence it stays unknown.

    1. Take the action: move the time of the next lookup on, as if this one had failed. After a
       crash the lookups go on.
    2. Look it up.
    3. Evidence moves the action; a lookup that found nothing may have been the last.
    """
    action = PendingAction.objects.get(pk=action_id)
    if action.status != Status.UNKNOWN:
        return
    made = action.probes + 1
    mine = PendingAction.objects.filter(
        pk=action.pk, status=Status.UNKNOWN, probes=action.probes, fence=action.fence
    )
    lost_for = ExpressionWrapper(Now() - F("ended_at"), DurationField())
    since_lost = action.attempts.filter(fence=action.fence).values_list(lost_for, flat=True).get()
    again = lookup_wait(made, since_lost=since_lost, failed=True)
    if not mine.filter(next_probe_at__lte=Now()).update(
        probes=min(made, len(PROBES)), next_probe_at=Now() + again
    ):
        return
    try:
        still_unknown = Q(status=Status.UNKNOWN, fence=action.fence)
        approved = load_approved(
            action.pk, keep=partial(preparation.keep, action, held=still_unknown)
        )
        order = action.attempts.values_list("notes", flat=True).get(fence=action.fence)
        if not is_named_by(order, approved.prepared):  # it proves nothing about this attempt
            approved = replace(approved, prepared={})
        outcome = get_kind(action.kind).reconcile(approved)
    except Exception:  # a failed lookup is no evidence; the next one follows
        log.exception("probe_failed", action=str(action.pk), count=made)
        return
    if outcome is not None:
        record_outcome(action.pk, action.fence, outcome, evidence="probe")
    elif lookup_wait(made, since_lost=since_lost) is None:
        mine_now = PendingAction.objects.filter(
            pk=action.pk, status=Status.UNKNOWN, fence=action.fence
        )
        mine_now.update(next_probe_at=None)


def purge() -> None:
    """Delete the content of actions that ended long ago.

    The row, its state and its idempotency key are kept, and so are the decisions without their
    notes.
    """
    old = _find_old(timedelta(days=settings.MAILHUB_RETENTION_DAYS))
    dead_letters.process_each("old", old.order_by("finished_at"), purge_one, limit=BATCH)


def purge_one(action_id: UUID) -> None:
    """Delete the content of one action that has ended."""
    mine = PendingAction.objects.filter(pk=action_id, purged_at__isnull=True)
    if mine.select_for_update(no_key=True, skip_locked=True).first() is None:
        return
    Revision.objects.filter(action=action_id).update(
        payload={}, preview={}, sealed_payload=None, sealed_preview=None
    )
    Blob.objects.filter(action=action_id).delete()
    Preparation.objects.filter(action=action_id).delete()
    Decision.objects.filter(action=action_id).exclude(note="", passage="").update(
        note="", passage=""
    )
    notes.delete(action_id)
    comments.delete(action_id)
    Watch.objects.filter(action=action_id).update(ends_at=None, answered_by="", note="", reports="")
    mine.update(purged_at=Now(), settle_at=None, returned=None)


_due = Select(
    lambda: (
        dispatch.find_free(dispatch.find_unpaused())
        .filter(conditions.still_holds())
        .order_by("not_before")
        .values_list("pk")[:BATCH]
    )
)
LOOKS = Background(
    "looks",
    lambda: _find_to_look_up().order_by("next_probe_at").values_list("mailbox", "pk")[:LISTED],
    _probe,
)
SENT_COPIES = Background(
    "sent-copies",
    lambda: _find_to_settle().order_by("settle_at").values_list("mailbox", "pk")[:LISTED],
    settling.settle_one,
)
CLEAN_UP = Background(
    "clean-up",
    lambda: (
        preparation.preparations_to_tidy()
        .order_by("tidy_at")
        .values_list("action__mailbox", "pk")[:LISTED]
    ),
    preparation.tidy,
)
reconcile, settle, tidy = LOOKS.finish, SENT_COPIES.finish, CLEAN_UP.finish
# In this order, because a later task may find work that an earlier one made.
CHORES: dict[str, Callable[[], object] | Background] = {
    "late": expire, "dead": end_dead_leases, "closed": advance_windows, "void": void.send_back, "to_probe": LOOKS,
    "to_settle": SENT_COPIES, "to_tidy": CLEAN_UP, "to_watch": watch.LOOKS, "old": purge,
    "to_forget": request_log.forget_old, "due": _notify, "to_tell": outbox.gather, "to_deliver": courier.deliver_beside,
    **notification_chores.CHORES,
}  # fmt: skip
_questions = Questions(
    lambda: {
        "late": _find_late(),
        "dead": _dead(),
        "closed": find_closed(),
        "void": void.find_due(),
        "to_probe": _find_to_look_up(),
        "to_settle": _find_to_settle(),
        "to_tidy": preparation.preparations_to_tidy(),
        "to_watch": watch.find_due().order_by("look_at"),
        # In the order of their indexes, as the questions of notification_chores.
        "old": _find_old(Slot("kept", DurationField())).order_by("finished_at"),
        "to_forget": request_log.find_old(Slot("kept", DurationField())).order_by("at"),
        "due": dispatch.find_free(dispatch.find_unpaused()),
        "to_tell": outbox.find_behind(),
        "to_deliver": courier.due(),
        **notification_chores.questions(),
    },
    _find_not_yet_due,
)
_waiting = Select(lambda: _find_not_yet_due()[:1])
