"""The end of approvals that no longer count: the action returns to a person with the reason, or is
withdrawn if the person approved that.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from accounts.infra.database import database_now
from accounts.infra.texts import dump_texts, translatable
from approvals.audit import anchors, chain
from approvals.core.states import Status
from approvals.core.types import AnsweredFirst, PreviewWarning
from approvals.gate import watches
from approvals.gate.news import add_news
from approvals.gate.rules.conditions import UNPROVEN, VOID, is_void
from approvals.gate.rules.policy import leave_from, policy_of
from approvals.models import PendingAction

log = structlog.get_logger(__name__)

WITHDRAWN_ANSWERED = "withdrawn_answered"
ANSWERED = translatable("Somebody answered in the conversation before it left.")
CAME_BACK = translatable("This was approved before, and came back.")
UNDECIDED: dict[str, Any] = {
    "approvals_given": 0,
    "approved_at": None,
    "approved_until": None,
    "undo_until": None,
    "not_before": None,
}


def return_if_void(action_id: UUID) -> bool:
    """Send an approved action back if its approval is void; return True if it was sent back."""
    # Most actions that cannot be claimed are only held back, so the first query takes no lock.
    void = PendingAction.objects.filter(is_void(), pk=action_id, status=Status.APPROVED)
    return void.exists() and _return_void(void)


@transaction.atomic
def _return_void(void: QuerySet[PendingAction]) -> bool:
    action = void.select_for_update(no_key=True, skip_locked=True).first()
    if action is None:
        return False
    for code, (condition, detail) in VOID.items():
        if _return_action(action, code=code, detail=detail, only_if=condition()):
            return True
    return False


@transaction.atomic
def return_with_warnings(action: PendingAction, warnings: Sequence[PreviewWarning]) -> bool:
    """Send an action back because the kind found a change since the approval that `action` shows.

    Return False if it has moved since.
    """
    return _return_action(
        action,
        code=warnings[0].code,
        detail=warnings[0].text,
        warnings=warnings,
        only_if=Q(approval_round=action.approval_round),
    )


@transaction.atomic
def withdraw_answered(action: PendingAction, answer: AnsweredFirst) -> bool:
    """Withdraw an action because the answer came that its approved content names as a reason.

    Return False if it has moved since the approval that `action` shows.
    """
    moved = action.move(
        Status.APPROVED,
        Status.CANCELLED,
        Q(approval_round=action.approval_round),
        finished_at=Now(),
        error={"code": WITHDRAWN_ANSWERED, **dump_texts(detail=ANSWERED)},
    )
    if moved:
        watches.note_answer(action, at=answer.at or database_now(), by=answer.by)
        link = chain.record(
            mailbox=action.mailbox_id,
            event="cancelled",
            actor="worker",
            action_id=action.pk,
            code=WITHDRAWN_ANSWERED,
        )
        anchors.append_after_commit(link)
    return moved


@transaction.atomic
def return_unproven(action: PendingAction) -> bool:
    """Send back an action without proof of an approval; return False if it has moved since."""
    log.warning("approval_unproven", action=str(action.pk), fence=action.fence)
    return _return_action(
        action,
        code=UNPROVEN,
        detail=VOID[UNPROVEN][1],
        only_if=Q(approval_round=action.approval_round),
    )


def _return_action(
    action: PendingAction,
    *,
    code: str,
    detail: str,
    only_if: Q,
    warnings: Sequence[PreviewWarning] = (),
) -> bool:
    """Move the action back to a person, with a revision that says why."""
    moved = action.move(
        Status.APPROVED,
        Status.PENDING,
        only_if,
        **UNDECIDED,
        **leave_from(policy_of(action.mailbox), now=database_now(), send_at=action.send_at),
        approval_round=action.approval_round + 1,
        error=None,
        returned={
            "code": code,
            "warnings": [warning.as_json() for warning in warnings],
            **dump_texts(detail=detail),
        },
    )
    if moved:
        link = chain.record(
            mailbox=action.mailbox_id,
            event="returned",
            actor="worker",
            action_id=action.pk,
            code=code,
        )
        anchors.append_after_commit(link)
        add_news(action, warnings or [PreviewWarning(code=code, title=CAME_BACK, text=detail)])
    return moved
