"""Carrying an approved action out: claim, run the kind, record. Nothing else calls Kind.execute.

What is promised: never without a person's approval of that exact content; never again on its own unless it is
proven that the first try did not go out; and it says so when it does not know.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models import Count, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role
from approvals import audit
from approvals.digest import digest_of
from approvals.kinds import kind_named
from approvals.models import Attempt, Blob, Decision, PendingAction
from approvals.retry import first_probe, next_try
from approvals.states import Status
from approvals.types import ApprovedAction, LeaseLost, Outcome

log = structlog.get_logger(__name__)

RECORD_TRIES = 5  # the outcome of a send must not be lost to a database that is restarting
REACHABLE = (Mailbox.Status.ACTIVE, Mailbox.Status.ERROR)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to carry one action out, until the lease ends; `fence` tells this claim from a later one."""

    action_id: UUID
    fence: int
    worker: str

    def held(self) -> Q:
        return Q(pk=self.action_id, fence=self.fence)


def may_execute() -> Q:
    """What must be true at the claim, judged by the database's clock. No joins: a condition on a joined table would
    not be checked again when PostgreSQL waits for a row that another worker is claiming."""
    return (
        Q(status=Status.APPROVED)
        & (Q(not_before=None) | Q(not_before__lte=Now()))
        & Q(expires_at__gt=Now())
        & Q(mailbox__in=Mailbox.objects.filter(status__in=REACHABLE))
        & Q(approvals_needed__lte=_approvals_that_count())
    )


def _approvals_that_count() -> Coalesce:
    """Distinct people who approved this revision, digest and round, and may still approve for the mailbox."""
    still_may = Membership.objects.filter(
        mailbox=OuterRef("action__mailbox"), user=OuterRef("person"), role__in=Role.at_least(Role.APPROVER)
    )
    counted = (
        Decision.objects.filter(
            action=OuterRef("pk"),
            verdict=Decision.Verdict.APPROVED,
            revision=OuterRef("revision"),
            digest=OuterRef("digest"),
            approval_round=OuterRef("approval_round"),
            person__is_active=True,
            person__in=still_may.values("user"),
        )
        .order_by()
        .values("action")
        .annotate(people=Count("person", distinct=True))
        .values("people")
    )
    return Coalesce(Subquery(counted), 0)


def execute(action_id: UUID, *, worker: str) -> bool:
    """Carry the action out if it is due and nobody else does; returns whether this worker did."""
    claim = _claim(action_id, worker)
    if claim is None:
        return False
    started = time.monotonic()
    with _lease_kept(claim):
        outcome = _run(claim)
    _record(claim, outcome)
    log.info(
        "attempt_ended", action=str(action_id), fence=claim.fence, outcome=outcome.verdict, code=outcome.code,
        duration_ms=round((time.monotonic() - started) * 1000), recipient_count=outcome.receipt.get("recipient_count"),
    )  # fmt: skip
    return True


@transaction.atomic
def _claim(action_id: UUID, worker: str) -> Claim | None:
    """One conditional UPDATE decides; the attempt is written in the same transaction, before any call."""
    lease = timedelta(seconds=settings.MAILHUB_LEASE_SECONDS)
    claimed = PendingAction.objects.filter(may_execute(), pk=action_id).update(
        status=Status.EXECUTING, fence=F("fence") + 1, lease_until=Now() + lease
    )
    if not claimed:
        return None
    action = PendingAction.objects.only("fence", "mailbox_id").get(pk=action_id)
    Attempt.objects.create(action=action, fence=action.fence, worker=worker, started_at=timezone.now())
    audit.record(mailbox=action.mailbox_id, event="claimed", actor="worker", action_id=action_id, fence=action.fence)
    return Claim(action_id=action_id, fence=action.fence, worker=worker)


def _run(claim: Claim) -> Outcome:
    """Run the kind. An exception after the wire was started says nothing about the effect: unknown."""
    try:
        approved = approved_action(claim.action_id, wire_started=lambda: _wire_started(claim))
        return kind_named(approved.kind).execute(approved)
    except LeaseLost:
        return Outcome(verdict="not_sent", code="lease_lost")
    except Exception:  # whatever a provider's library raises must end as an outcome, never as a lost attempt
        log.exception("kind_raised", action=str(claim.action_id), fence=claim.fence)
        started = Attempt.objects.filter(
            action=claim.action_id, fence=claim.fence, phase=Attempt.Phase.WIRE_STARTED
        ).exists()
        return Outcome(verdict="unknown" if started else "not_sent", code="internal_error")


def approved_action(action_id: UUID, *, wire_started: Any = None) -> ApprovedAction:
    """The frozen payload of an action, checked against the digest that was approved."""
    action = PendingAction.objects.get(pk=action_id)
    revision = action.current
    if not action.digest == revision.digest == digest_of(revision.payload):
        raise ValueError("the revision is not the one that was approved")
    blobs = {blob.sha256: bytes(blob.content) for blob in Blob.objects.filter(action=action)}
    return ApprovedAction(
        id=action.pk,
        kind=action.kind,
        mailbox_id=action.mailbox_id,
        payload=revision.payload,
        digest=revision.digest,
        message_id=action.message_id,
        wire_started=wire_started,
        blob=blobs.__getitem__,
    )


@transaction.atomic
def _wire_started(claim: Claim) -> None:
    """Commit that from now on the effect may have happened; refuse when the lease has run out meanwhile."""
    held = (
        PendingAction.objects.select_for_update()
        .filter(claim.held(), status=Status.EXECUTING, lease_until__gt=Now())
        .exists()
    )
    marked = held and Attempt.objects.filter(
        action=claim.action_id, fence=claim.fence, phase=Attempt.Phase.PREPARED, verdict=None
    ).update(phase=Attempt.Phase.WIRE_STARTED, wire_started_at=timezone.now())
    if not marked:
        raise LeaseLost


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
                    PendingAction.objects.filter(claim.held(), status=Status.EXECUTING).update(
                        lease_until=Now() + lease
                    )
                except OperationalError:
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
    for attempt in range(RECORD_TRIES):
        try:
            record_outcome(claim.action_id, claim.fence, outcome, evidence="answer")
            return
        except OperationalError:
            connection.close()
            if attempt == RECORD_TRIES - 1:
                log.exception("outcome_not_recorded", action=str(claim.action_id), fence=claim.fence)
            time.sleep(2**attempt / 4)


@transaction.atomic
def record_outcome(action_id: UUID, fence: int, outcome: Outcome, *, evidence: str) -> bool:
    """Move the action to where the outcome leads, guarded by the fence; returns whether it still could.

    A worker that lost its lease after the wire was started knows the truth: it may still turn `unknown` into it.
    """
    action = PendingAction.objects.select_for_update().filter(pk=action_id, fence=fence).first()
    attempt = Attempt.objects.filter(action=action_id, fence=fence).first()
    if action is None or attempt is None or action.status not in (Status.EXECUTING, Status.UNKNOWN):
        return False
    source = Status(action.status)
    if source is Status.UNKNOWN and outcome.verdict == "unknown":
        return False
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk).update(
        verdict=outcome.verdict, code=outcome.code, evidence=evidence, ended_at=now
    )
    error = {
        name: value
        for name, value in {
            "code": outcome.code, "detail": outcome.detail,
            "retry_after": outcome.retry_after, "required_scope": outcome.required_scope,
        }.items()
        if value
    }  # fmt: skip
    match outcome.verdict:
        case "accepted":
            moved = action.move(
                source, Status.SUCCEEDED, receipt=dict(outcome.receipt), error=None, finished_at=now,
                next_probe_at=None, settle_at=now,
            )  # fmt: skip
        case "refused":
            moved = action.move(source, Status.FAILED, error=error, finished_at=now, next_probe_at=None)
        case "not_sent":
            tries = action.attempts.count()
            wait = next_try(tries, retry_after=outcome.retry_after)
            moved = action.move(
                source, Status.APPROVED, not_before=now + wait, undo_until=None, error=error or None,
                next_probe_at=None,
            )  # fmt: skip
        case "unknown":
            moved = action.move(
                source, Status.UNKNOWN, error=error or None, next_probe_at=now + first_probe(), probes=0
            )
    audit.record(
        mailbox=action.mailbox_id, event=f"outcome_{outcome.verdict}", actor="worker", action_id=action_id,
        fence=fence, code=outcome.code, evidence=evidence,
    )  # fmt: skip
    return moved
