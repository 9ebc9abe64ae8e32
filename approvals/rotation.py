"""Moving what the gate keeps to the first encryption key, in batches. It may be interrupted and run again."""

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from accounts.keys import first_key_id
from approvals.models import Decision, PendingAction
from approvals.seals import decision_holds, order_holds, seal_of_decision, seal_of_order
from approvals.states import Status

BATCH = 500
SAID = ("method", "verdict", "revision", "approval_round", "digest", "created_at")


def reseal() -> list[str]:
    """Seal decisions and open orders with the first key; return the names of those whose seal does not hold.

    What carries no seal gets none: nobody can prove any more that mailhub wrote it.
    """
    lost = []
    for decision in _batches(Decision.objects.exclude(seal="")):
        said = {"action": decision.action_id, "person": decision.person_id} | {
            name: getattr(decision, name) for name in SAID
        }
        if decision_holds(decision.seal, **said):
            Decision.objects.filter(pk=decision.pk).update(seal=seal_of_decision(**said))
        else:
            lost.append(f"decision {decision.pk}")
    for action in _batches(PendingAction.objects.filter(status=Status.APPROVED).exclude(order_seal="")):
        if order_holds(action):
            # A worker may claim it meanwhile, and then it has no order any more.
            mine = PendingAction.objects.filter(pk=action.pk, status=Status.APPROVED, order_seal=action.order_seal)
            mine.update(order_seal=seal_of_order(action))
        else:
            lost.append(f"order of {action.pk}")
    return lost


def _batches(rows: QuerySet[Any]) -> Iterator[Any]:
    """The rows that another key has sealed, without one long transaction or statement."""
    name = "seal" if rows.model is Decision else "order_seal"
    rows = rows.exclude(**{f"{name}__startswith": f"{first_key_id().hex()}:"}).order_by("pk")
    batch = list(rows[:BATCH])
    while batch:
        yield from batch
        batch = list(rows.filter(pk__gt=batch[-1].pk)[:BATCH])
