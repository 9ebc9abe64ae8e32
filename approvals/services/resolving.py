"""A person's ruling where no evidence has come: it was sent, or it was not and is to be sent again."""

from typing import Any, Literal, assert_never
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Greatest, Now
from django.utils import timezone

from accounts.models import Role, User
from accounts.problems import Problem
from approvals import audit
from approvals.models import PendingAction
from approvals.outcomes import record_outcome
from approvals.policies import lifetime_of, policy_of
from approvals.queues.base import queue
from approvals.services.deciding import leaving, locked, may
from approvals.states import Status
from approvals.types import Outcome

Ruling = Literal["sent", "not_sent"]


def resolve(*, action_id: UUID, person: User, ruling: Ruling) -> PendingAction:
    """Rule about an unknown outcome; the caller has made sure that the person is really there (step-up).

    sent: it succeeded, and the receipt says who ruled. not_sent: it leaves again with the same Message-ID, after an
    undo window; this is a fresh order, so an action that has expired meanwhile lives on. Raises `forbidden`, and
    `conflict` when the outcome is known.
    """
    with transaction.atomic():
        action = locked(action_id)
        refusal = None
        if not may(person, action.mailbox, Role.APPROVER):
            refusal = Problem("forbidden", "You may not decide for this mailbox.")
        elif action.status != Status.UNKNOWN:
            refusal = Problem("conflict", f"There is nothing to rule about: it is {Status(action.status).label}.")
        if refusal:
            audit.record(
                mailbox=action.mailbox, event="ruling_refused", actor=f"user:{person.pk}", action_id=action.id,
                code=refusal.code, ruling=ruling,
            )  # fmt: skip
        else:
            _rule(action, person, ruling)
    # Raised outside: the audit event of a refusal must stay.
    if refusal:
        raise refusal
    action.refresh_from_db()
    return action


def _rule(action: PendingAction, person: User, ruling: Ruling) -> None:
    changes: dict[str, Any] = {}
    match ruling:
        case "sent":
            outcome = Outcome(verdict="accepted", receipt=_receipt(action, person))
        case "not_sent":
            outcome = Outcome(verdict="not_sent")
            policy = policy_of(action.mailbox)
            changes = {
                **leaving(action, policy),
                "expires_at": Greatest("expires_at", Now() + lifetime_of(policy)),
            }
            transaction.on_commit(lambda: queue().ring(action.id), robust=True)
        case _:
            assert_never(ruling)
    moved = record_outcome(
        action.pk, action.fence, outcome, evidence="person", actor=f"user:{person.pk}", **changes
    )  # fmt: skip
    assert moved, "the row is locked"


def _receipt(action: PendingAction, person: User) -> dict[str, Any]:
    return {
        "at": timezone.now().isoformat(timespec="seconds").replace("+00:00", "Z"),
        "recipient_count": len(action.current.preview["targets"]),
        "provider": action.mailbox.provider,
        "ruled_by": str(person),
    }
