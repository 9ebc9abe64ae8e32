"""Writing down what is known about an attempt, by whoever found it out: the worker, the sweeper, a probe, a person."""

from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models.functions import Greatest, Now

from accounts.statements import Select, instance, slot
from approvals import audit, retry
from approvals.models import Attempt, PendingAction, Rest
from approvals.returning import sent_after_all
from approvals.states import Status
from approvals.types import Outcome

log = structlog.get_logger(__name__)


_locked = Select(lambda: PendingAction.objects.select_for_update().filter(pk=slot(PendingAction, "id", "pk")))
_tried = Select(lambda: Attempt.objects.filter(action=slot(Attempt, "action"), fence=slot(Attempt, "fence")))


@transaction.atomic
def record_outcome(
    action_id: UUID, fence: int, outcome: Outcome, *, evidence: str, actor: str = "worker", **changes: Any
) -> bool:
    """Move the action to where the outcome leads, guarded by the fence; returns whether it still could.

    A worker that lost its lease after the wire was started knows the truth: it may still turn `unknown` into it. What
    comes later still changes no attempt, but it is written down, and an action that has been ordered to leave again
    goes back to a person when the first try turns out to have been taken. `changes` go with the move.
    """
    found = _locked.first(pk=action_id)
    tried = _tried.first(action=action_id, fence=fence)
    if found is None or tried is None:
        return False
    action, attempt = instance(PendingAction, found), instance(Attempt, tried)
    if action.fence != fence or action.status not in (Status.EXECUTING, Status.UNKNOWN):
        if outcome.verdict != attempt.verdict:
            _too_late(action, attempt, outcome)
        return False
    source = Status(action.status)
    if source is Status.UNKNOWN and outcome.verdict == "unknown":
        return False
    Attempt.objects.filter(pk=attempt.pk).update(
        verdict=outcome.verdict,
        code=outcome.code,
        evidence=evidence,
        reference=outcome.reference[:255],
        ended_at=Now(),
    )
    # How often it was tried only counts for when it is tried again.
    following = retry.after(outcome, tries=action.attempts.count() if outcome.verdict == "not_sent" else 1)
    moved = action.move(source, following.status, **{**_changes(outcome, following), **changes})
    if following.rest is not None:
        _rest(action, following)
    audit.record(
        mailbox=action.mailbox_id, event=f"outcome_{outcome.verdict}", actor=actor, action_id=action_id,
        fence=fence, code=outcome.code, evidence=evidence,
    )  # fmt: skip
    return moved


def _changes(outcome: Outcome, following: retry.Next) -> dict[str, Any]:
    """The columns that go with the move; times by the database's clock."""
    error = {
        name: value
        for name, value in {
            "code": outcome.code, "detail": outcome.detail,
            "retry_after": outcome.retry_after, "required_scope": outcome.required_scope,
        }.items()
        if value
    }  # fmt: skip
    changes: dict[str, Any] = {"error": error or None, "next_probe_at": None}
    match following.status:
        case Status.SUCCEEDED:
            changes |= {"receipt": dict(outcome.receipt), "error": None, "finished_at": Now(), "settle_at": Now()}
        case Status.FAILED:
            changes |= {"finished_at": Now()}
        case Status.APPROVED:
            changes |= {"not_before": Now() + following.wait, "undo_until": None}
        case Status.UNKNOWN:
            changes |= {"next_probe_at": Now() + following.wait, "probes": 0}
    return changes


def _rest(action: PendingAction, following: retry.Next) -> None:
    """The whole mailbox waits; a shorter rest never ends a longer one."""
    until = Now() + following.rest
    row, created = Rest.objects.get_or_create(mailbox_id=action.mailbox_id, defaults={"until": until})
    if not created:
        Rest.objects.filter(pk=row.pk).update(until=Greatest("until", until))


def _too_late(action: PendingAction, attempt: Attempt, outcome: Outcome) -> None:
    log.warning("late_outcome", action=str(action.pk), fence=attempt.fence, outcome=outcome.verdict)
    audit.record(
        mailbox=action.mailbox_id, event="late_outcome", actor="worker", action_id=action.pk,
        fence=attempt.fence, verdict=outcome.verdict, code=outcome.code,
    )  # fmt: skip
    if outcome.verdict == "accepted" and action.status == Status.APPROVED:
        sent_after_all(action)
