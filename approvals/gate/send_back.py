"""The end of approvals that no longer count: the action returns to a person with the reason, or is
withdrawn if the person approved that. A sweep judges a few of the approved actions.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now

from accounts.infra.database import database_now
from accounts.infra.texts import dump_texts, translatable
from accounts.models import Mailbox
from approvals.audit import chain
from approvals.core.states import Status
from approvals.core.types import AnsweredFirst, PreviewWarning
from approvals.gate import dead_letters, watches
from approvals.gate.news import add_news, tell_news
from approvals.gate.rules import conditions
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
# Actions that are judged in one statement, and statements in one sweep.
SLICE, SLICES = 10, 6
BEGINNING: dict[str, Any] = {"since": datetime(1970, 1, 1, tzinfo=UTC), "last": UUID(int=0)}
MOST = 500  # the first to expire; the others get the news when somebody decides about them


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
        chain.record(
            mailbox=action.mailbox_id,
            event="cancelled",
            actor="worker",
            action_id=action.pk,
            code=WITHDRAWN_ANSWERED,
            anchored=True,
        )
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
        chain.record(
            mailbox=action.mailbox_id,
            event="returned",
            actor="worker",
            action_id=action.pk,
            code=code,
            anchored=True,
        )
        add_news(action, warnings or [PreviewWarning(code=code, title=CAME_BACK, text=detail)])
    return moved


def send_back() -> None:
    """Send approved actions that may not leave any more back to a person, with the reason.

    Each call judges the next few approved actions, and begins again after the last: one that leaves
    in days needs a new decision before its time has come. With thousands, judging them all would
    take seconds. Nothing leaves wrongly by this: the claim judges the action again, and returns it
    too.
    """
    for _ in range(SLICES):
        judged = _judge(**_slice)
        found = [action_id for action_id, _, is_void in judged if is_void]
        dead_letters.process_each(
            "void", PendingAction.objects.filter(pk__in=found), return_if_void, limit=SLICE
        )
        if len(judged) < SLICE:
            _slice.update(BEGINNING)
            return
        last, since, _ = judged[-1]
        _slice.update(since=since, last=last)


def find_approved() -> QuerySet[PendingAction]:
    """Return the approved actions, whether their time has come or not."""
    return PendingAction.objects.filter(status=Status.APPROVED)


def _judge(since: datetime, last: UUID) -> list[Any]:
    """Return the next few approved actions, each with True if its approval is void."""
    after = Q(not_before__gte=since) & (Q(not_before__gt=since) | Q(pk__gt=last))
    following = find_approved().filter(after).order_by("not_before", "pk")[:SLICE]
    judged = (
        PendingAction.objects.filter(pk__in=following.values("pk"))
        .annotate(is_void=ExpressionWrapper(conditions.is_void(), BooleanField()))
        .order_by("not_before", "pk")
        .values_list("pk", "not_before", "is_void")
    )
    return list(judged)


_slice = dict(BEGINNING)  # the last action that this process has judged


def announce_change(
    sender: object, *, name: str, mailbox: Mailbox | None, data: dict[str, Any], **_: object
) -> None:
    """Receive `accounts.audit_hook.audit_event`, and add the news to open mail after the commit."""
    if mailbox is None and name in ("token_revoked", "token_narrowed"):
        concerned = Q(token_id=data["token"])
    elif mailbox is not None and name == "mailbox_reconnected":
        concerned = Q(mailbox=mailbox) & ~Q(mailbox_generation=F("mailbox__generation"))
    else:
        return
    transaction.on_commit(partial(_tell_open, concerned), robust=True)


def _tell_open(concerned: Q) -> None:
    found = PendingAction.objects.filter(concerned, status__in=(Status.PENDING, Status.APPROVED))
    for action_id in found.order_by("expires_at", "pk").values_list("pk", flat=True)[:MOST]:
        if not return_if_void(action_id):
            _tell_waiting(action_id)


@transaction.atomic
def _tell_waiting(action_id: UUID) -> None:
    waiting = PendingAction.objects.filter(pk=action_id, status=Status.PENDING)
    if action := waiting.select_for_update(no_key=True).first():
        tell_news(action)
