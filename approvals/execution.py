"""Carrying an approved action out: look again, claim, run the kind, record. Nothing else calls Kind.execute.

What is promised: never without a person's approval of that exact content; never again on its own unless it is
proven that the first try did not go out; and it says so when it does not know.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from approvals import audit
from approvals.approved import approved_action
from approvals.conditions import may_execute
from approvals.kinds import kind_named
from approvals.models import Attempt, PendingAction, Preparation
from approvals.outcomes import record_outcome
from approvals.queues.base import queue
from approvals.returning import return_if_void, return_with_warnings
from approvals.revisions import untold
from approvals.states import Status
from approvals.types import ApprovedAction, LeaseLost, Outcome, Prepares, Rechecks

log = structlog.get_logger(__name__)

RECORD_TRIES = 5  # the outcome of a send must not be lost to a database that is restarting
LOOK_AGAIN = timedelta(seconds=30)  # after a recheck that could not be made


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to carry one action out, until the lease ends; `fence` tells this claim from a later one.

    `on_wire` is set once "from here on it may have been sent" is committed.
    """

    action_id: UUID
    fence: int
    on_wire: threading.Event = field(default_factory=threading.Event)

    def held(self) -> Q:
        return Q(pk=self.action_id, fence=self.fence)


def execute(action_id: UUID, *, worker: str) -> bool:
    """Carry the action out if it is due and nobody else does; returns whether this worker did."""
    approved = PendingAction.objects.filter(pk=action_id, status=Status.APPROVED).first()
    if approved is None or not _still_right(approved):
        return False
    claim = _claim(approved, worker)
    if claim is None:
        return_if_void(action_id)
        return False
    started = time.monotonic()
    with _lease_kept(claim):
        outcome = _run(claim)
    _record(claim, outcome)
    log.info(
        "attempt_ended", action=str(action_id), fence=claim.fence, outcome=outcome.verdict, code=outcome.code,
        duration_ms=round((time.monotonic() - started) * 1000), recipient_count=outcome.receipt.get("recipient_count"),
    )  # fmt: skip
    _ring_for_next(approved)
    return True


def _ring_for_next(left: PendingAction) -> None:
    """Whoever came for another mail of this mailbox meanwhile went away again. A bell that fails costs a sweep."""
    try:
        if not PendingAction.objects.filter(mailbox=left.mailbox_id, status=Status.APPROVED).exists():
            return
        following = PendingAction.objects.filter(may_execute(), mailbox=left.mailbox_id).order_by("not_before")
        for action_id in following.values_list("pk", flat=True)[:1]:
            queue().ring(action_id)
    except Exception:  # the mail of before is recorded: nothing that comes after may look like its failure
        log.exception("bell_failed", action=str(left.pk))


def _still_right(action: PendingAction) -> bool:
    """Let the kind look once more, where it has something to look at; what it says sends the action back."""
    kind = kind_named(action.kind)
    if not isinstance(kind, Rechecks) or not PendingAction.objects.filter(may_execute(), pk=action.pk).exists():
        return True  # what may not leave anyway is not looked at: the claim says no
    try:
        warnings = untold(action, kind.recheck(approved_action(action.pk)))
    except Exception:  # nothing was found out, so nothing leaves; it is looked at again
        log.exception("recheck_failed", action=str(action.pk))
        PendingAction.objects.filter(pk=action.pk, status=Status.APPROVED).update(not_before=Now() + LOOK_AGAIN)
        return False
    if warnings:
        return_with_warnings(action, warnings)
    return not warnings


def _claim(action: PendingAction, worker: str) -> Claim | None:
    """One conditional UPDATE decides; the attempt is written in the same transaction, before any call.

    None when another worker was faster, with this action or with another one of the same mailbox.
    """
    lease = timedelta(seconds=settings.MAILHUB_LEASE_SECONDS)
    # Who comes second does not wait for the first: the row is locked only when nobody holds it.
    free = PendingAction.objects.select_for_update(skip_locked=True).filter(pk=action.pk).values("pk")
    # What was looked at again is what is claimed, not a later round of it.
    looked_at = Q(digest=action.digest, approval_round=action.approval_round)
    try:
        with transaction.atomic():
            claimed = PendingAction.objects.filter(may_execute(), looked_at, pk__in=free).update(
                status=Status.EXECUTING, fence=F("fence") + 1, lease_until=Now() + lease
            )
            if not claimed:
                return None
            action.refresh_from_db(fields=["fence"])
            Attempt.objects.create(action=action, fence=action.fence, worker=worker, started_at=Now())
            audit.record(
                mailbox=action.mailbox_id, event="claimed", actor="worker", action_id=action.pk, fence=action.fence
            )
    except IntegrityError as error:
        if "action_one_leaving_a_mailbox" in str(error) or "approvals_pendingaction.mailbox_id" in str(error):
            return None
        raise
    return Claim(action_id=action.pk, fence=action.fence)


def _run(claim: Claim) -> Outcome:
    """Run the kind. An exception after the wire was started says nothing about the effect: unknown."""
    try:
        leased = claim.held() & Q(status=Status.EXECUTING, lease_until__gt=Now())
        approved = approved_action(claim.action_id, wire_started=lambda: _wire_started(claim), held=leased)
        kind = kind_named(approved.kind)
        if isinstance(kind, Prepares):
            _discard_outdated(kind, approved)
        return kind.execute(approved)
    except LeaseLost:
        return Outcome(verdict="not_sent", code="lease_lost")
    except Exception:  # whatever a provider's library raises must end as an outcome, never as a lost attempt
        log.exception("kind_raised", action=str(claim.action_id), fence=claim.fence)
        return Outcome(verdict="unknown" if claim.on_wire.is_set() else "not_sent", code="internal_error")


def _discard_outdated(kind: Prepares, approved: ApprovedAction) -> None:
    """What was prepared for an earlier revision goes before this one is prepared, or nobody would know of it."""
    outdated = Preparation.objects.filter(action=approved.id).exclude(digest=approved.digest)
    for notes in outdated.values_list("notes", flat=True):
        kind.discard(replace(approved, prepared=notes))
        outdated.delete()


def _wire_started(claim: Claim) -> None:
    """Commit that from now on the effect may have happened; refuse when the lease has run out meanwhile."""
    with transaction.atomic():
        held = (
            PendingAction.objects.select_for_update()
            .filter(claim.held(), status=Status.EXECUTING, lease_until__gt=Now())
            .exists()
        )
        marked = held and Attempt.objects.filter(
            action=claim.action_id, fence=claim.fence, phase=Attempt.Phase.PREPARED, verdict=None
        ).update(phase=Attempt.Phase.WIRE_STARTED, wire_started_at=Now())
        if not marked:
            raise LeaseLost
    claim.on_wire.set()


@contextmanager
def _lease_kept(claim: Claim) -> Iterator[None]:
    """Renew the lease while the kind runs, but no longer than one sending call may take."""
    done = threading.Event()
    every = settings.MAILHUB_LEASE_SECONDS / 3
    give_up_at = time.monotonic() + settings.MAILHUB_WIRE_TIMEOUT_SECONDS

    def renew() -> None:
        try:
            while not done.wait(every) and time.monotonic() < give_up_at:
                lease = timedelta(seconds=settings.MAILHUB_LEASE_SECONDS)
                try:
                    # A lease that has ended stays ended: somebody may have judged by it already.
                    PendingAction.objects.filter(
                        claim.held(), status=Status.EXECUTING, lease_until__gt=Now()
                    ).update(lease_until=Now() + lease)  # fmt: skip
                except (OperationalError, InterfaceError):
                    connection.close()  # the database restarts; the next round tries on a new connection
        finally:
            connection.close()

    thread = threading.Thread(target=renew, name=f"lease-{claim.fence}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _record(claim: Claim, outcome: Outcome) -> None:
    """Write the outcome. A failed COMMIT may have committed, so try again on a new connection: it changes nothing
    the second time."""
    for tried in range(RECORD_TRIES):
        try:
            record_outcome(claim.action_id, claim.fence, outcome, evidence="answer")
            return
        except (OperationalError, InterfaceError):
            connection.close()
            if tried == RECORD_TRIES - 1:
                log.exception("outcome_not_recorded", action=str(claim.action_id), fence=claim.fence)
                return
            time.sleep(2**tried / 4)
