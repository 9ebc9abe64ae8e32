"""The claim of an approved action: one conditional UPDATE, and its attempt."""

import threading
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from accounts.connect.connecting import account_of
from accounts.models import Mailbox
from approvals.audit import chain
from approvals.core.signatures import verify_order
from approvals.core.states import Status
from approvals.gate.pauses import restored
from approvals.gate.rules.conditions import approvals_of, may_execute_now
from approvals.gate.send_back import return_unproven
from approvals.models import Attempt, AuditChain, PendingAction
from approvals.models.audit import NO_MAILBOX


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


class _Unproven(Exception):
    """An approval that the claim counted has no valid signature."""


class _Older(Exception):
    """A chain of the audit is older than its anchored head."""


class _AnotherAccount(Exception):
    """The mailbox that the claim read is of another generation than the approved one."""


def another_leaves(error: IntegrityError) -> bool:
    return "action_one_leaving_a_mailbox" in str(
        error
    ) or "approvals_pendingaction.mailbox_id" in str(error)


def _claim(action: PendingAction) -> bool:
    """Move the action, in the state that was read and rechecked, to `executing`.

    SKIP LOCKED: a second worker does not wait.
    """
    free = PendingAction.objects.select_for_update(no_key=True, skip_locked=True)
    mine = PendingAction.objects.filter(
        may_execute_now(),
        digest=action.digest,
        approval_round=action.approval_round,
        fence=action.fence,
        pk__in=free.filter(pk=action.pk).values("pk"),
    )
    lease = timedelta(seconds=settings.MAILHUB_LEASE_SECONDS)
    claimed = mine.update(status=Status.EXECUTING, fence=F("fence") + 1, lease_until=Now() + lease)
    return bool(claimed)


def take_claim(action: PendingAction, worker: str) -> Claim | None:
    """Claim the action with one conditional UPDATE, and write the attempt in the same transaction.

    Both happen before any call. First the signature of the order to leave is checked. Approvals are
    only ever added, so all that the UPDATE counted are among those that are read after it, and the
    signature of each is checked. Return None if another worker was faster, with this action or with
    another one of the same mailbox. Return None too if a signature is not valid: then the action
    goes back to a person. `action.mailbox` is then the mailbox as the claim found it.
    """
    if not verify_order(action):
        return_unproven(action)
        return None
    try:
        with transaction.atomic():
            if not _claim(action):
                return None
            action.mailbox = Mailbox.objects.get(pk=action.mailbox_id)
            # It may have been connected again since the UPDATE.
            if action.mailbox.generation != action.mailbox_generation:
                raise _AnotherAccount
            if not all(approvals_of(action).values()):
                raise _Unproven
            ends = (
                chain.lock_end(action.mailbox_id),
                AuditChain.objects.filter(pk=NO_MAILBOX).first(),
            )
            if not all(chain.fits(end) for end in ends if end):
                raise _Older
            fence = action.fence + 1
            Attempt.objects.create(
                action_id=action.pk,
                fence=fence,
                worker=worker,
                started_at=Now(),
                account=account_of(action.mailbox),
            )
            chain.record(
                mailbox=action.mailbox_id,
                event="claimed",
                actor="worker",
                action_id=action.pk,
                fence=fence,
            )
    except _AnotherAccount:
        return None
    except _Unproven:  # the claim was rolled back
        return_unproven(action)
        return None
    except _Older:  # undone approvals and pauses are lost with the newer database
        restored.compare_everything()
        return None
    except IntegrityError as error:
        if another_leaves(error):
            return None
        raise
    return Claim(action_id=action.pk, fence=fence)
