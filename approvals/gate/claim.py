"""The claim of an approved action: one conditional UPDATE, and its attempt."""

import threading
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import DurationField, F, Q, QuerySet
from django.db.models.functions import Now

from accounts.infra.compiled_sql import (
    Insert,
    Rows,
    Select,
    Slot,
    Update,
    read_all,
    slot,
)
from accounts.models import Mailbox
from approvals.audit import anchors, chain
from approvals.core.signatures import verify_order
from approvals.core.states import Status
from approvals.gate.pauses import restored
from approvals.gate.records import approving, check_approvals, describe_approved
from approvals.gate.rules.conditions import may_execute
from approvals.gate.send_back import return_unproven
from approvals.models import Attempt, AuditChain, PendingAction
from approvals.models.audit import NO_MAILBOX


def _free() -> QuerySet[PendingAction]:
    """Return the row if it may be claimed. SKIP LOCKED: a second worker does not wait."""
    free = PendingAction.objects.select_for_update(no_key=True, skip_locked=True).filter(
        pk=slot(PendingAction, "id", "pk")
    )
    return PendingAction.objects.filter(
        may_execute(),
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


_mailbox = Rows(Mailbox, lambda: Mailbox.objects.filter(pk=slot(Mailbox, "id", "pk")).order_by())
_end_of_server = Select(
    lambda: AuditChain.objects.filter(pk=NO_MAILBOX).values_list("length", "head")
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
    approved = describe_approved(action)
    try:
        with transaction.atomic():
            # The claim is for the round that was rechecked, not a later one.
            claimed, approvals, mailbox, end, of_server = read_all(
                (
                    _claim,
                    {
                        "pk": action.pk,
                        "digest": action.digest,
                        "approval_round": action.approval_round,
                        "lease": timedelta(seconds=settings.MAILHUB_LEASE_SECONDS),
                        "claimed_before": action.fence,
                    },
                ),
                (approving, approved),
                (_mailbox, {"pk": action.mailbox_id}),
                (chain.end_of_chain, {"pk": action.mailbox_id}),
                (_end_of_server, {}),
            )
            if not claimed:
                return None
            (found,) = _mailbox.load(mailbox)
            if found.generation != action.mailbox_generation:  # connected again since the UPDATE
                raise _AnotherAccount
            if not all(check_approvals(approvals, approved).values()):
                raise _Unproven
            ends = ((action.mailbox_id, end), (NO_MAILBOX, of_server))
            if not all(anchors.fits(each, *rows[0]) for each, rows in ends if rows):
                raise _Older
            ((fence,),) = claimed
            _attempt(action=action.pk, fence=fence, worker=worker)
            chain.record(
                mailbox=action.mailbox_id,
                event="claimed",
                actor="worker",
                action_id=action.pk,
                end=chain.read_end(end),
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
    action.mailbox = found
    return Claim(action_id=action.pk, fence=fence)
