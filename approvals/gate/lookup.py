"""The search in Sent for an action whose outcome is unknown."""

from dataclasses import replace
from functools import partial
from uuid import UUID

import structlog
from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now

from accounts.connect.connecting import is_of_account
from accounts.infra.texts import Translatable, dump_texts, join, load_texts, translatable
from approvals.core.states import Status
from approvals.core.types import get_kind
from approvals.gate import preparation
from approvals.gate.backoff import PROBES, lookup_wait
from approvals.gate.load import load_approved
from approvals.gate.outcome import record_outcome
from approvals.gate.reconcile import NOBODY_LOOKS, is_named_by
from approvals.gate.rules.conditions import is_in_mailbox_that_may_look
from approvals.models import PendingAction

log = structlog.get_logger(__name__)

ANOTHER_ACCOUNT = translatable(
    "The mailbox has been connected to another account or server since then, and mailhub does not look there."
)


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
    3. Evidence moves the action; a lookup that found nothing may have been the last. In another
       account than the one that sent it there is no evidence, so nobody looks there. Where nobody may
       look, no lookup is counted: it would be taken for one that found nothing.
    """
    action = PendingAction.objects.get(pk=action_id)
    if action.status != Status.UNKNOWN:
        return
    made = action.probes + 1
    mine = PendingAction.objects.filter(
        pk=action.pk, status=Status.UNKNOWN, probes=action.probes, fence=action.fence
    )
    lost_for = ExpressionWrapper(Now() - F("ended_at"), DurationField())
    attempt = action.attempts.annotate(lost_for=lost_for).get(fence=action.fence)
    since_lost = attempt.lost_for
    again = lookup_wait(made, since_lost=since_lost, failed=True)
    if not mine.filter(next_probe_at__lte=Now()).update(
        probes=min(made, len(PROBES)), next_probe_at=Now() + again
    ):
        return
    still_unknown = Q(status=Status.UNKNOWN, fence=action.fence)
    try:
        approved = load_approved(
            action.pk, keep=partial(preparation.keep, action, held=still_unknown)
        )
        if not is_of_account(approved.mailbox, attempt.account):
            _stop_looking(still_unknown, action, ANOTHER_ACCOUNT)
            return
        kind = get_kind(action.kind)
        if not kind.can_look(approved):
            _stop_looking(still_unknown, action, NOBODY_LOOKS)
            return
        # Otherwise it proves nothing about this attempt.
        if not is_named_by(attempt.notes, approved.prepared):
            approved = replace(approved, prepared={})
        outcome = kind.reconcile(approved)
    except Exception:  # a failed lookup is no evidence; the next one follows
        log.exception("probe_failed", action=str(action.pk), count=made)
        return
    if outcome is not None:
        record_outcome(action.pk, action.fence, outcome, evidence="probe", worker=attempt.worker)
    elif lookup_wait(made, since_lost=since_lost) is None:
        PendingAction.objects.filter(still_unknown, pk=action.pk).update(next_probe_at=None)


def _stop_looking(still_unknown: Q, action: PendingAction, why: Translatable) -> None:
    before = load_texts(action.error or {})
    detail = join(before.get("detail", ""), why)
    PendingAction.objects.filter(still_unknown, pk=action.pk).update(
        next_probe_at=None, probes=action.probes, error={**before, **dump_texts(detail=detail)}
    )
