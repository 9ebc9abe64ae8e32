"""Carrying an approved action out: look again, claim, run the kind, record.

Nothing else calls Kind.execute.

What is promised: never without a person's approval of that exact content; never again on its own
unless it is proven that the first try did not go out; and it says so when it does not know.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import (
    Count,
    DurationField,
    Exists,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)
from django.db.models.functions import Coalesce, Now
from django.db.models.lookups import Exact

from accounts.infra.compiled_sql import Insert, Select, Slot, Update, database_now, slot
from approvals.audit import chain
from approvals.core.kinds import kind_named
from approvals.core.queue import queue
from approvals.core.seals import order_holds
from approvals.core.states import Status
from approvals.core.types import LeaseLost, Outcome, Rechecks
from approvals.decisions.records import approvals_of
from approvals.lifecycle.load import Read, read_action
from approvals.lifecycle.outcomes import SENT_AFTER_ALL, close_as_sent, record_outcome
from approvals.lifecycle.reconcile import NotLookedAt, SentAlready, sent_already, settle_doubts
from approvals.lifecycle.returns import return_if_void, return_unproven, return_with_warnings
from approvals.lifecycle.revisions import untold
from approvals.models import Attempt, Decision, PendingAction, Preparation
from approvals.pauses import journal, restored
from approvals.rules.conditions import may_execute
from approvals.worker.preparation import discard_outdated, keep

log = structlog.get_logger(__name__)

RECORD_TRIES = 5  # the outcome of a send must not be lost to a database that is restarting
RENEWAL_ENDS_SECONDS = 5.0
LOOK_AGAIN = timedelta(seconds=30)  # after a look that could not be taken
HELD_BACK_AT_MOST = timedelta(minutes=10)
NOT_LOOKED_AT = {
    "code": "not_looked_at",
    "detail": "Whether something has changed since the approval could not be looked up. Nothing leaves before that.",
}
NOT_LOOKED_IN_SENT = (
    "It may have left already, and Sent could not be looked at. Nothing leaves before that."
)


def _free() -> QuerySet[PendingAction]:
    """Who comes second does not wait for the first: the row is locked only when nobody holds it."""
    free = PendingAction.objects.select_for_update(no_key=True, skip_locked=True).filter(
        pk=slot(PendingAction, "id", "pk")
    )
    return PendingAction.objects.filter(
        may_execute(),
        Exact(_approvals_written(), Slot("approvals", IntegerField())),
        digest=slot(PendingAction, "digest"),
        approval_round=slot(PendingAction, "approval_round"),
        fence=slot(PendingAction, "fence", "claimed_before"),
        pk__in=free.values("pk"),
    )


def _approvals_written() -> Coalesce:
    """How many approvals of this revision, digest and round there are.

    Rows of them are only ever added, so the same number means the same rows.
    """
    written = Decision.objects.filter(
        action=OuterRef("pk"),
        verdict=Decision.Verdict.APPROVED,
        revision=OuterRef("revision"),
        digest=OuterRef("digest"),
        approval_round=OuterRef("approval_round"),
    )
    return Coalesce(
        Subquery(written.order_by().values("action").annotate(n=Count("pk")).values("n")), 0
    )


_claimed = Update(
    _free,
    lambda: {
        "status": Status.EXECUTING,
        "fence": F("fence") + 1,
        "lease_until": Now() + Slot("lease", DurationField()),
    },
    returning="fence",
)
_attempt = Insert(Attempt, "action fence worker", started_at=Now())


def _held() -> QuerySet[Attempt]:
    """The attempt of a claim whose lease has not run out; the action's row is locked while that is
    looked at.

    It is the only one of its action without a verdict: a claim ends before the next one begins.
    None if an earlier attempt turned out to have been accepted.
    """
    held = PendingAction.objects.select_for_update(no_key=True).filter(
        pk=slot(PendingAction, "id", "pk"),
        fence=slot(PendingAction, "fence"),
        status=Status.EXECUTING,
        lease_until__gt=Now(),
    )
    accepted = Attempt.objects.filter(action=OuterRef("action"), verdict=Attempt.Verdict.ACCEPTED)
    return Attempt.objects.filter(
        ~Exists(accepted),
        action__in=held.values("pk"),
        phase=Attempt.Phase.PREPARED,
        verdict=None,
    )


def _started() -> dict[str, Any]:
    """The changes at the point of no return.

    The notes are what the order names: destroying that proves it void.
    """
    prepared = Preparation.objects.filter(action=OuterRef("action")).values("notes")
    return {
        "phase": Attempt.Phase.WIRE_STARTED,
        "wire_started_at": Now(),
        "notes": Subquery(prepared),
    }


_marked = Update(_held, _started)
_may_leave = Select(
    lambda: (
        PendingAction.objects.filter(may_execute(), pk=slot(PendingAction, "id", "pk"))
        .order_by()
        .values_list("pk")
    )
)
_following = Select(
    lambda: (
        PendingAction.objects.filter(may_execute(), mailbox=slot(PendingAction, "mailbox"))
        .order_by("not_before")
        .values_list("pk")[:1]
    )
)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to carry one action out, until the lease ends; `fence` tells this claim from a
    later one.

    `on_wire` is set once "from here on it may have been sent" is committed.
    """

    action_id: UUID
    fence: int
    on_wire: threading.Event = field(default_factory=threading.Event)

    def held(self) -> Q:
        return Q(pk=self.action_id, fence=self.fence)


def execute(action_id: UUID, *, worker: str) -> bool:
    """Carry the action out if it is due and nobody else does; returns whether this worker did.

    It is read once. What is carried out is what was read: its digest is computed from that, and the
    claim is for this digest, in this round, alone.
    """
    read = read_action(action_id)
    if read is None or read.action.status != Status.APPROVED or restored.compare():
        return False
    if not (_still_right(read) and _still_unsent(read, worker)):
        return False
    approved = read.action
    claim = _claim(approved, worker)
    if claim is None:
        return_if_void(action_id)
        return False
    started = time.monotonic()
    with _lease_kept(claim):
        outcome = _run(claim, read)
    _record(claim, outcome)
    log.info(
        "attempt_ended",
        action=str(action_id),
        fence=claim.fence,
        outcome=outcome.verdict,
        code=outcome.code,
        duration_ms=round((time.monotonic() - started) * 1000),
        recipient_count=outcome.receipt.get("recipient_count"),
    )
    _ring_for_next(approved)
    return True


def _ring_for_next(left: PendingAction) -> None:
    """Whoever came for another mail of this mailbox meanwhile went away again.

    A bell that fails costs a sweep.
    """
    try:
        for (action_id,) in _following(mailbox=left.mailbox_id):
            queue().ring(action_id)
    except (
        Exception
    ):  # the mail of before is recorded: nothing that comes after may look like its failure
        log.exception("bell_failed", action=str(left.pk))


def _still_right(read: Read) -> bool:
    """Let the kind look once more, where it has something to look at; what it says sends the action
    back.
    """
    action = read.action
    kind = kind_named(action.kind)
    if not isinstance(kind, Rechecks) or not _may_leave(pk=action.pk):
        return True  # what may not leave anyway is not looked at: the claim says no
    try:
        warnings = kind.recheck(read.approved())
        warnings = untold(action, warnings) if warnings else ()
    except Exception:  # nothing was found out, so nothing leaves; it is looked at again
        log.exception("recheck_failed", action=str(action.pk))
        _look_later(action, NOT_LOOKED_AT["detail"])
        return False
    if warnings:
        return_with_warnings(action, warnings)
    return not warnings


def _still_unsent(read: Read, worker: str) -> bool:
    """Look in Sent for what was approved before this process began and never tried; found there,
    everything pauses.

    Only an older copy of the database can have forgotten that try. If `after_restore` went through
    the action, a person approved it despite the warning: then it is closed as sent, and nothing
    else has to pause. A mailbox that cannot be looked at holds its mail back for ten minutes after
    the start: one without Sent would wait for ever.
    """
    action = read.action
    if (
        action.fence
        or not restored.is_from_before(action.approved_at)
        or not _may_leave(pk=action.pk)
    ):
        return True
    try:
        found = sent_already(kind_named(action.kind), read.approved())
    except NotLookedAt:
        if database_now() > restored.began() + HELD_BACK_AT_MOST:
            return True
        _look_later(action, NOT_LOOKED_IN_SENT)
        return False
    if found is None:
        return True
    if restored.warned_of(action.pk):
        _close_found(action, found, worker)
    elif PendingAction.objects.filter(
        pk=action.pk, status=Status.APPROVED, fence=action.fence
    ).exists():
        restored.pause_for("sent")  # or else another worker has just sent it
    return False


def _close_found(action: PendingAction, found: Outcome, worker: str) -> None:
    """Close as sent what an earlier attempt sent, unless another mail of the mailbox leaves now:
    then a sweep does.
    """
    try:
        close_as_sent(action.pk, found, worker=worker, actor="worker")
    except IntegrityError as error:
        if not _another_leaves(error):
            raise


def _another_leaves(error: IntegrityError) -> bool:
    return "action_one_leaving_a_mailbox" in str(
        error
    ) or "approvals_pendingaction.mailbox_id" in str(error)


def _look_later(action: PendingAction, detail: str) -> None:
    PendingAction.objects.filter(
        pk=action.pk, status=Status.APPROVED, approval_round=action.approval_round
    ).update(not_before=Now() + LOOK_AGAIN, error={"code": NOT_LOOKED_AT["code"], "detail": detail})


def _claim(action: PendingAction, worker: str) -> Claim | None:
    """One conditional UPDATE decides; the attempt is written in the same transaction, before any
    call.

    Before it, the seals of the order to leave and of every approval are checked, and the UPDATE is
    for exactly what was checked. None when another worker was faster, with this action or with
    another one of the same mailbox, or when a seal does not hold: then the action goes back to a
    person.
    """
    if not order_holds(action):
        return_unproven(action)
        return None
    lease = timedelta(seconds=settings.MAILHUB_LEASE_SECONDS)
    try:
        with transaction.atomic():
            approvals = approvals_of(action)
            if not all(approvals.values()):
                return_unproven(action)
                return None
            # What was looked at again is what is claimed, not a later round of it.
            claimed = _claimed(
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
            _attempt(action=action.pk, fence=fence, worker=worker)
            chain.record(
                mailbox=action.mailbox_id,
                event="claimed",
                actor="worker",
                action_id=action.pk,
                fence=fence,
            )
    except IntegrityError as error:
        if _another_leaves(error):
            return None
        raise
    return Claim(action_id=action.pk, fence=fence)


def _run(claim: Claim, read: Read) -> Outcome:
    """Run the kind. An exception after the wire was started says nothing about the effect: unknown.

    Before a mail leaves again that may have left already, its earlier attempts are looked at once
    more.
    """
    try:
        leased = claim.held() & Q(status=Status.EXECUTING, lease_until__gt=Now())
        approved = read.approved(
            wire_started=lambda: _wire_started(claim), keep=partial(keep, read.action, held=leased)
        )
        kind = kind_named(approved.kind)
        if read.outdated is not None:
            discard_outdated(kind, approved, read.outdated)
        if claim.fence > 1:
            approved = settle_doubts(kind, approved, fence=claim.fence)
        return kind.execute(approved)
    except SentAlready:
        return Outcome(verdict="not_sent", code=SENT_AFTER_ALL)
    except NotLookedAt:
        return Outcome(verdict="not_sent", code=NOT_LOOKED_AT["code"], detail=NOT_LOOKED_IN_SENT)
    # whatever a provider's library raises must end as an outcome, never as a lost attempt
    except Exception as error:
        lost = isinstance(error, LeaseLost)
        if not lost:
            log.exception("kind_raised", action=str(claim.action_id), fence=claim.fence)
        return Outcome(
            verdict="unknown" if claim.on_wire.is_set() else "not_sent",
            code="lease_lost" if lost else "internal_error",
        )


def _wire_started(claim: Claim) -> None:
    """Commit that from now on the effect may have happened; refuse when the lease has run out
    meanwhile.
    """
    if not _marked(pk=claim.action_id, fence=claim.fence):
        raise LeaseLost
    # After the commit and before the wire: the file never knows less than the mail server, or more
    # than the database.
    journal.append(claim.action_id, claim.fence)
    restored.note((claim.action_id, claim.fence))
    claim.on_wire.set()


@contextmanager
def _lease_kept(claim: Claim) -> Iterator[None]:
    """Renew the lease while the kind runs: for as long as it may take to the point of no return,
    and as long again for the answer.
    """
    done = threading.Event()
    every = settings.MAILHUB_LEASE_SECONDS / 3
    began = time.monotonic()

    def may_go_on() -> bool:
        phases = 2 if claim.on_wire.is_set() else 1
        return time.monotonic() < began + phases * settings.MAILHUB_WIRE_TIMEOUT_SECONDS

    def renew() -> None:
        try:
            while not done.wait(every) and may_go_on():
                lease = timedelta(seconds=settings.MAILHUB_LEASE_SECONDS)
                try:
                    # A lease that has ended stays ended: somebody may have judged by it already.
                    PendingAction.objects.filter(
                        claim.held(), status=Status.EXECUTING, lease_until__gt=Now()
                    ).update(lease_until=Now() + lease)
                except (OperationalError, InterfaceError):
                    # the database restarts; the next round tries on a new connection
                    connection.close()
        finally:
            connection.close()

    thread = threading.Thread(target=renew, name=f"lease-{claim.fence}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(RENEWAL_ENDS_SECONDS)  # it may wait for a database that does not answer


def _record(claim: Claim, outcome: Outcome) -> None:
    """Write the outcome.

    A failed COMMIT may have committed, so try again on a new connection: it changes nothing the
    second time.
    """
    for tried in range(RECORD_TRIES):
        try:
            record_outcome(claim.action_id, claim.fence, outcome, evidence="answer")
            return
        except (OperationalError, InterfaceError):
            connection.close()
            if tried == RECORD_TRIES - 1:
                log.exception(
                    "outcome_not_recorded", action=str(claim.action_id), fence=claim.fence
                )
                return
            time.sleep(2**tried / 4)
