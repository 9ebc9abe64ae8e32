"""Return of approved actions to a person, with the reason why they may not leave any more."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Q

from accounts.infra.compiled_sql import Select, database_now, slot
from accounts.infra.texts import dump_texts, translatable
from approvals.audit import chain
from approvals.core.states import Status
from approvals.core.types import PreviewWarning
from approvals.lifecycle.revisions import add_notice
from approvals.models import PendingAction
from approvals.rules.conditions import VOID, is_void
from approvals.rules.policy import leave_from, policy_of

log = structlog.get_logger(__name__)

UNDECIDED: dict[str, Any] = {
    "approvals_given": 0,
    "approved_at": None,
    "approved_until": None,
    "undo_until": None,
    "not_before": None,
}


_is_void = Select(
    lambda: PendingAction.objects.filter(
        is_void(), pk=slot(PendingAction, "id", "pk"), status=Status.APPROVED
    ).values_list("pk")
)


def return_if_void(action_id: UUID) -> bool:
    """Send an approved action back if its approval is void; return True if it was sent back."""
    # Most actions that cannot be claimed are only held back, so the first query takes no lock.
    return bool(_is_void(pk=action_id)) and _return_if_void(action_id)


@transaction.atomic
def _return_if_void(action_id: UUID) -> bool:
    approved = PendingAction.objects.filter(is_void(), pk=action_id, status=Status.APPROVED)
    action = approved.select_for_update(no_key=True, skip_locked=True).first()
    if action is None:
        return False
    for code, (condition, detail) in VOID.items():
        if _return_action(action, code=code, detail=detail, only_if=condition()):
            return True
    return False


@transaction.atomic
def return_with_warnings(action: PendingAction, warnings: Sequence[PreviewWarning]) -> bool:
    """Send an action back because the kind found a change since the approval that `action` shows.

    Return False if it has moved since. A new revision of the same content shows the finding, so the
    next approver sees it.
    """
    moved = _return_action(
        action,
        code=warnings[0].code,
        detail=warnings[0].text,
        warnings=[warning.as_json() for warning in warnings],
        only_if=Q(approval_round=action.approval_round),
    )
    if moved:
        add_notice(action, warnings)
    return moved


@transaction.atomic
def return_unproven(action: PendingAction) -> bool:
    """Send back an action without proof of an approval; return False if it has moved since."""
    log.warning("approval_unproven", action=str(action.pk), fence=action.fence)
    return _return_action(
        action,
        code="approval_unproven",
        detail=translatable(
            "The approval has no valid signature. It is from before an upgrade or a change of keys, or somebody wrote"
            " it into the database. Look at the message and decide again."
        ),
        only_if=Q(approval_round=action.approval_round),
    )


def _return_action(
    action: PendingAction,
    *,
    code: str,
    detail: str,
    only_if: Q,
    warnings: Sequence[dict[str, Any]] = (),
) -> bool:
    moved = action.move(
        Status.APPROVED,
        Status.PENDING,
        only_if,
        **UNDECIDED,
        **leave_from(policy_of(action.mailbox), now=database_now(), send_at=action.send_at),
        approval_round=action.approval_round + 1,
        error=None,
        returned={"code": code, "warnings": list(warnings), **dump_texts(detail=detail)},
    )
    if moved:
        chain.record(
            mailbox=action.mailbox_id,
            event="returned",
            actor="worker",
            action_id=action.pk,
            code=code,
        )
    return moved
