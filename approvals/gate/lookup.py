"""The search in Sent for an action whose outcome is unknown."""

from dataclasses import replace
from functools import partial
from uuid import UUID

import structlog
from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now

from approvals.core.states import Status
from approvals.core.types import get_kind
from approvals.gate import preparation
from approvals.gate.backoff import PROBES, lookup_wait
from approvals.gate.load import load_approved
from approvals.gate.outcome import record_outcome
from approvals.gate.reconcile import is_named_by
from approvals.gate.rules.conditions import is_in_mailbox_that_may_look
from approvals.models import PendingAction

log = structlog.get_logger(__name__)


def find_due() -> QuerySet[PendingAction]:
    return PendingAction.objects.filter(
        is_in_mailbox_that_may_look(),
        status=Status.UNKNOWN,
        next_probe_at__lte=Now(),
    ).order_by("next_probe_at")


def look_up(action_id: UUID) -> None:
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
