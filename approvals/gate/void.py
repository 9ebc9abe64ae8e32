"""The return of void approvals: a few of the actions that are due are judged in each sweep."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet

from approvals.core.states import Status
from approvals.gate import dead_letters
from approvals.gate.rules import conditions
from approvals.gate.send_back import return_if_void
from approvals.models import PendingAction

SLICE, SLICES = 10, 6  # actions that are judged in one statement, and statements in one sweep


def send_back() -> None:
    """Send approved actions that may not leave any more back to a person, with the reason.

    Each call judges the next few of the actions that are due, and begins again after the last.
    With thousands held back, judging them all would take seconds. Nothing leaves late or wrongly
    by this: the claim judges the action again, and returns it too.
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


def find_due() -> QuerySet[PendingAction]:
    """Return the approved actions whose time has come, held back or not."""
    return PendingAction.objects.filter(conditions.due(), status=Status.APPROVED)


def _judge(since: datetime, last: UUID) -> list[Any]:
    """Return the next few of the actions that are due, each with True if its approval is void."""
    after = Q(not_before__gte=since) & (Q(not_before__gt=since) | Q(pk__gt=last))
    following = find_due().filter(after).order_by("not_before", "pk")[:SLICE]
    judged = (
        PendingAction.objects.filter(pk__in=following.values("pk"))
        .annotate(is_void=ExpressionWrapper(conditions.is_void(), BooleanField()))
        .order_by("not_before", "pk")
        .values_list("pk", "not_before", "is_void")
    )
    return list(judged)


BEGINNING: dict[str, Any] = {"since": datetime(1970, 1, 1, tzinfo=UTC), "last": UUID(int=0)}
_slice = dict(BEGINNING)  # the last action that this process has judged
