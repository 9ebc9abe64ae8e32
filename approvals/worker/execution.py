"""Carrying an approved action out: look again, claim, run the kind, record.

Nothing else calls Kind.execute.

What is promised: never without a person's approval of that exact content; never again on its own
unless it is proven that the first try did not go out; and it says so when it does not know.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, connection
from django.db.models import (
    Exists,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)
from django.db.models.functions import Now

from accounts.infra.compiled_sql import Select, Update, database_now, slot
from approvals.core.kinds import kind_named
from approvals.core.queue import queue
from approvals.core.states import Status
from approvals.core.types import LeaseLost, Outcome, Rechecks
from approvals.lifecycle.load import Read, read_action
from approvals.lifecycle.outcomes import SENT_AFTER_ALL, close_as_sent, record_outcome
from approvals.lifecycle.reconcile import NotLookedAt, SentAlready, sent_already, settle_doubts
from approvals.lifecycle.returns import return_if_void, return_with_warnings
from approvals.lifecycle.revisions import untold
from approvals.models import Attempt, PendingAction, Preparation
from approvals.pauses import journal, restored
from approvals.rules.conditions import may_execute
from approvals.worker.claim import Claim, another_leaves, take_claim
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
    claim = take_claim(approved, worker)
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
        if not another_leaves(error):
            raise


def _look_later(action: PendingAction, detail: str) -> None:
    PendingAction.objects.filter(
        pk=action.pk, status=Status.APPROVED, approval_round=action.approval_round
    ).update(not_before=Now() + LOOK_AGAIN, error={"code": NOT_LOOKED_AT["code"], "detail": detail})


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
