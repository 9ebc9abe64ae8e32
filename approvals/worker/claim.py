"""The claim of an approved action: one conditional UPDATE, and its attempt."""

import threading
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import (
    DurationField,
    F,
    IntegerField,
    Q,
    QuerySet,
)
from django.db.models.functions import Now
from django.db.models.lookups import Exact

from accounts.infra.compiled_sql import Insert, Slot, Update, slot
from accounts.infra.transactions import pipeline
from approvals.audit import chain
from approvals.core.signatures import verify_order
from approvals.core.states import Status
from approvals.decisions.records import approvals_of
from approvals.lifecycle.returns import return_unproven
from approvals.models import Attempt, PendingAction
from approvals.rules.conditions import may_execute
from approvals.rules.quorum import approval_count


def _free() -> QuerySet[PendingAction]:
    """Return the row if it may be claimed. SKIP LOCKED: a second worker does not wait."""
    free = PendingAction.objects.select_for_update(no_key=True, skip_locked=True).filter(
        pk=slot(PendingAction, "id", "pk")
    )
    return PendingAction.objects.filter(
        may_execute(),
        Exact(approval_count(), Slot("approvals", IntegerField())),
        digest=slot(PendingAction, "digest"),
        approval_round=slot(PendingAction, "approval_round"),
        fence=slot(PendingAction, "fence", "claimed_before"),
        pk__in=free.values("pk"),
    )


_claim = Update(
    _free,
    lambda: {
        "status": Status.EXECUTING,
        "fence": F("fence") + 1,
        "lease_until": Now() + Slot("lease", DurationField()),
    },
    returning="fence",
)


_attempt = Insert(Attempt, "action fence worker", started_at=Now())


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to carry one action out, until the lease ends; `fence` identifies this claim.

    `on_wire` is set once "from here on it may have been sent" is committed.
    """

    action_id: UUID
    fence: int
    on_wire: threading.Event = field(default_factory=threading.Event)

    def is_held(self) -> Q:
        return Q(pk=self.action_id, fence=self.fence)


def another_leaves(error: IntegrityError) -> bool:
    return "action_one_leaving_a_mailbox" in str(
        error
    ) or "approvals_pendingaction.mailbox_id" in str(error)


def take_claim(action: PendingAction, worker: str) -> Claim | None:
    """Claim the action with one conditional UPDATE, and write the attempt in the same transaction.

    Both happen before any call. First the signatures of the order to leave and of every approval
    are checked, and the UPDATE holds for exactly the checked rows. Return None if another worker
    was faster, with this action or with another one of the same mailbox. Return None too if a
    signature is not valid: then the action goes back to a person.
    """
    if not verify_order(action):
        return_unproven(action)
        return None
    lease = timedelta(seconds=settings.MAILHUB_LEASE_SECONDS)
    try:
        with transaction.atomic():
            approvals = approvals_of(action)
            if not all(approvals.values()):
                return_unproven(action)
                return None
            # The claim is for the round that was rechecked, not a later one.
            claimed = _claim(
                pk=action.pk,
                digest=action.digest,
                approval_round=action.approval_round,
                lease=lease,
                claimed_before=action.fence,
                approvals=len(approvals),
            )
            if not claimed:
                return None
            ((fence,),) = claimed
            with pipeline():
                _attempt(action=action.pk, fence=fence, worker=worker)
                chain.record(
                    mailbox=action.mailbox_id,
                    event="claimed",
                    actor="worker",
                    action_id=action.pk,
                    fence=fence,
                )
    except IntegrityError as error:
        if another_leaves(error):
            return None
        raise
    return Claim(action_id=action.pk, fence=fence)
