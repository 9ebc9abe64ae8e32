"""Recording of the outcome of an attempt, for the worker, the sweeper, a lookup and a person."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest, Now

from accounts.connect.connecting import account_of
from accounts.infra.texts import Translatable, dump_texts, join, translatable
from approvals.audit import chain
from approvals.core.states import OPEN, Status
from approvals.core.types import BEFORE_WIRE, Outcome, PreviewWarning, get_kind
from approvals.gate.backoff import PROBES, retry_wait
from approvals.gate.send_back import return_with_warnings
from approvals.models import Attempt, PendingAction, Rest

log = structlog.get_logger(__name__)

SENT_AFTER_ALL = (
    "sent_after_all"  # code of an attempt that ended because an earlier one was accepted
)
LEASE = timedelta(minutes=1)  # of an attempt that is written and closed in one transaction
# The verdict and the proof of an open attempt that is closed by the late answer to an earlier one.
LEFT_OPEN = {
    Attempt.Phase.PREPARED: (Attempt.Verdict.NOT_SENT, BEFORE_WIRE.kind),
    Attempt.Phase.WIRE_STARTED: (Attempt.Verdict.UNKNOWN, ""),
}
RESTORED = "may_have_been_sent"  # code of the notice that a restore left
LOOK_FIRST = translatable("Look in the Sent folder, or ask a recipient, before you approve it.")
LATER_ATTEMPT = translatable(
    "The attempt that this copy of the database knows sent nothing, but a later one may have."
)


@dataclass(frozen=True, kw_only=True)
class Next:
    """The state after an outcome.

    `wait` is the time until the next attempt or lookup, `rest` the cool-down of the whole mailbox.
    """

    status: Status
    wait: timedelta | None = None
    rest: timedelta | None = None


def next_state(outcome: Outcome, *, tries: int) -> Next:
    """Return the state after the outcome of the last of `tries` attempts.

    Only an attempt that certainly sent nothing is retried. Without a request to pause, a Retry-After
    on any other outcome means nothing: a 202 may carry one.
    """
    match outcome.verdict:
        case "accepted":
            return Next(status=Status.SUCCEEDED)
        case "refused":
            return Next(status=Status.FAILED)
        case "unknown":
            # The provider may refuse everything and leave this one unknown.
            rest = retry_wait(1, retry_after=outcome.retry_after)
            wait = timedelta(seconds=PROBES[0])
            return Next(
                status=Status.UNKNOWN, wait=wait, rest=rest if outcome.pauses_mailbox else None
            )
        case "not_sent":
            wait = retry_wait(tries, retry_after=outcome.retry_after)
            pauses = outcome.pauses_mailbox or outcome.retry_after is not None
            return Next(status=Status.APPROVED, wait=wait, rest=wait if pauses else None)


@transaction.atomic
def close_as_sent(action_id: UUID, outcome: Outcome, *, worker: str, actor: str) -> bool:
    """Write the attempt that the database has lost; return True if that was possible.

    `outcome` is the evidence for it.
    """
    action = PendingAction.objects.select_for_update(no_key=True).get(pk=action_id)
    if not action.move(
        Status.APPROVED,
        Status.EXECUTING,
        fence=F("fence") + 1,
        lease_until=Now() + LEASE,
        unreconciled=False,
    ):
        return False
    action.refresh_from_db()
    attempt = Attempt.objects.create(
        action=action,
        fence=action.fence,
        worker=worker,
        started_at=Now(),
        account=account_of(action.mailbox),
    )
    Attempt.objects.filter(pk=attempt.pk).update(
        phase=Attempt.Phase.WIRE_STARTED, wire_started_at=Now()
    )
    chain.record(
        mailbox=action.mailbox_id,
        event="claimed",
        actor=actor,
        action_id=action.pk,
        fence=action.fence,
    )
    return record_outcome(action.pk, action.fence, outcome, evidence="probe", actor=actor)


def record_outcome(
    action_id: UUID,
    fence: int,
    outcome: Outcome,
    *,
    evidence: str,
    actor: str = "worker",
    worker: str | None = None,
    **changes: Any,
) -> bool:
    """Move the action to the state of the outcome, guarded by the fence; return True if it moved.

    With `worker`, only if the attempt is of this claim, and not of one with its fence after a restore.

    A worker that lost its lease after the wire was started knows the truth: it may still turn
    `unknown` into it. An "accepted" that comes later still closes the action, whatever was ordered
    meanwhile. An action of a restored copy that was not sent by this attempt goes to a person, because
    the copy may not know a later one. `changes` go with the move.
    """
    try:
        return _record(action_id, fence, outcome, evidence, actor, worker, changes)
    except _CameBack:
        with transaction.atomic():
            moved = _record(
                action_id, fence, outcome, evidence, actor, worker, changes, came_back=True
            )
            if moved:
                action = PendingAction.objects.get(pk=action_id)
                return_with_warnings(action, [warn_of_doubt(action.kind, LATER_ATTEMPT)])
        return moved


def warn_of_doubt(kind_name: str, *said: Translatable) -> PreviewWarning:
    """Return the warning about an action that may have happened already, for these reasons."""
    words = get_kind(kind_name).words
    return PreviewWarning(
        code=RESTORED,
        title=translatable("It may have happened already.")
        if words
        else translatable("It may have been sent already."),
        text=join(*said, words.get("look_first", LOOK_FIRST)),
        severity="risk",
    )


class _CameBack(Exception):
    """The action came back with an older copy, and would be sent again on its old approval."""


def _record(
    action_id: UUID,
    fence: int,
    outcome: Outcome,
    evidence: str,
    actor: str,
    worker: str | None,
    changes: dict[str, Any],
    *,
    came_back: bool = False,
) -> bool:
    with transaction.atomic():
        action = PendingAction.objects.select_for_update(no_key=True).filter(pk=action_id).first()
        attempt = Attempt.objects.filter(action=action_id, fence=fence).first()
        if action is None or attempt is None or worker not in (None, attempt.worker):
            return False
        if action.fence != fence or action.status not in (Status.EXECUTING, Status.UNKNOWN):
            return _record_late(action, attempt, outcome, evidence)
        source = Status(action.status)
        if source is Status.UNKNOWN and outcome.verdict == "unknown":
            return False
        # The number of attempts only matters for the wait before a retry.
        following = next_state(
            outcome, tries=action.attempts.count() if outcome.verdict == "not_sent" else 1
        )
        doubted = source is Status.UNKNOWN and action.restored_at is not None
        if doubted and following.status is Status.APPROVED and not came_back:
            raise _CameBack
        _write(attempt, outcome, evidence)
        moved = action.move(source, following.status, **{**_changes(outcome, following), **changes})
        if following.rest is not None:
            _start_cool_down(action, following)
        proven: dict[str, Any] = {"proof": outcome.proof.kind} if outcome.proof else {}
        chain.record(
            mailbox=action.mailbox_id,
            event=f"outcome_{outcome.verdict}",
            actor=actor,
            action_id=action_id,
            fence=fence,
            code=outcome.code,
            evidence=evidence,
            **proven,
        )
    return moved


def _changes(outcome: Outcome, following: Next) -> dict[str, Any]:
    """Return the columns that go with the move; times by the database's clock."""
    error = {
        name: value
        for name, value in {
            "code": outcome.code,
            **dump_texts(detail=outcome.detail),
            "retry_after": outcome.retry_after,
            "required_scope": outcome.required_scope,
        }.items()
        if value
    }
    changes: dict[str, Any] = {"error": error or None, "next_probe_at": None}
    match following.status:
        case Status.SUCCEEDED:
            changes |= {
                "receipt": dict(outcome.receipt),
                "error": None,
                "finished_at": Now(),
                "settle_at": Now(),
            }
        case Status.FAILED:
            changes |= {"finished_at": Now()}
        case Status.APPROVED:
            changes |= {"not_before": Now() + following.wait, "undo_until": None}
        case Status.UNKNOWN:
            changes |= {"next_probe_at": Now() + following.wait, "probes": 0}
    return changes


def _start_cool_down(action: PendingAction, following: Next) -> None:
    """Start a cool-down of the whole mailbox; a shorter one never ends a longer one."""
    until = Now() + following.rest
    rest = Rest(mailbox_id=action.mailbox_id, until=until)
    Rest.objects.bulk_create([rest], ignore_conflicts=True)
    Rest.objects.filter(mailbox=action.mailbox_id).update(until=Greatest("until", until))


def _record_late(action: PendingAction, attempt: Attempt, outcome: Outcome, evidence: str) -> bool:
    """Record an answer that came after a later claim or a ruling; return True if the action moved.

    The provider's word replaces a person's. "Accepted" closes an action that is still open, and is
    final: after a ruling "it was sent", a proof that nothing was sent is only recorded.
    """
    by_person = attempt.evidence == "person"
    if attempt.verdict == outcome.verdict and not by_person:
        return False
    is_final = attempt.verdict == Attempt.Verdict.ACCEPTED
    if is_final and not (by_person and outcome.proof):
        return False
    accepted = outcome.verdict == "accepted"
    # An acceptance that moves no action is a copy that nobody expects any more.
    say = log.error if accepted and action.status not in OPEN else log.warning
    say("late_outcome", action=str(action.pk), fence=attempt.fence, outcome=outcome.verdict)
    chain.record(
        mailbox=action.mailbox_id,
        event="late_outcome",
        actor="worker",
        action_id=action.pk,
        fence=attempt.fence,
        verdict=outcome.verdict,
        code=outcome.code,
    )
    on_wire = attempt.phase == Attempt.Phase.WIRE_STARTED
    doubted = attempt.verdict == Attempt.Verdict.UNKNOWN or by_person
    if accepted and _may_be_of_another(attempt, evidence):
        return False
    # A refusal changes the verdict only if it was unknown or a person's ruling. Any other acceptance is
    # always written, whatever seemed to be proven.
    if is_final or (not accepted and (not on_wire or not doubted or outcome.verdict == "unknown")):
        return False
    _write(attempt, outcome, evidence)
    return accepted and action.status in OPEN and _close(action, attempt, outcome, evidence)


def _may_be_of_another(attempt: Attempt, evidence: str) -> bool:
    """Return True if what somebody has found, now or before, may be the one copy of two attempts.

    Only an answer of the provider belongs to one attempt. The other attempt stays in doubt, else "It was
    sent twice" would be said of one copy.
    """
    accepted = Attempt.objects.filter(
        action=attempt.action_id, verdict=Attempt.Verdict.ACCEPTED
    ).exclude(pk=attempt.pk)
    if evidence == "answer":
        return not attempt.proof and accepted.exclude(evidence="answer").exists()
    return accepted.exists()


def _close(action: PendingAction, attempt: Attempt, outcome: Outcome, evidence: str) -> bool:
    """Close as succeeded an action whose earlier attempt was accepted.

    The latest attempt, if it is still open, ends with it.
    """
    latest = Attempt.objects.filter(action=action, verdict=None).exclude(pk=attempt.pk)
    for phase, (verdict, proof) in LEFT_OPEN.items():
        latest.filter(phase=phase).update(
            verdict=verdict, proof=proof, code=SENT_AFTER_ALL, evidence=evidence, ended_at=Now()
        )
    succeeded = Next(status=Status.SUCCEEDED)
    changes = {
        **_changes(outcome, succeeded),
        "returned": None,
        "undo_until": None,
        "not_before": None,
    }
    moved = action.move(Status(action.status), Status.SUCCEEDED, **changes)
    chain.record(
        mailbox=action.mailbox_id,
        event="outcome_accepted",
        actor="worker",
        action_id=action.pk,
        fence=attempt.fence,
        code=outcome.code,
        evidence=evidence,
    )
    return moved


def _write(attempt: Attempt, outcome: Outcome, evidence: str) -> None:
    on_wire = {"phase": Attempt.Phase.WIRE_STARTED, "wire_started_at": F("started_at")}
    if outcome.verdict != "accepted" or attempt.phase == Attempt.Phase.WIRE_STARTED:
        on_wire = {}
    Attempt.objects.filter(pk=attempt.pk).update(
        **on_wire,
        verdict=outcome.verdict,
        proof=outcome.proof.kind if outcome.proof else "",
        code=outcome.code,
        evidence=evidence,
        reference=outcome.reference[:255],
        ended_at=Now(),
    )
