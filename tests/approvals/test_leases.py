"""A worker that dies, freezes or loses its database: nothing goes twice, and the record is true."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.utils import timezone

from accounts.models import User
from approvals.core.types import BEFORE_WIRE, ApprovedAction, LeaseLost, Outcome
from approvals.gate import overdue, rulings
from approvals.gate.execute import execute
from approvals.gate.outcome import record_outcome
from approvals.models import Attempt, AuditEvent, PendingAction
from tests.approvals.kinds import LOST, NOT_NOW, Script, handed_over
from tests.support.servers.memory import MemoryServer
from tests.support.work import offered, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

ACCEPTED = Outcome(
    verdict="accepted",
    receipt={"at": "2026-05-04T12:00:00Z", "recipient_count": 1, "provider": "memory"},
)


def lease_ends(*_: object) -> None:
    """End the lease: the worker was frozen for longer than that, and a sweeper ran."""
    PendingAction.objects.filter(status="executing").update(
        lease_until=timezone.now() - timedelta(seconds=1)
    )
    overdue.end_dead_leases()


def state_of(action: PendingAction) -> str:
    action.refresh_from_db()
    return action.status


@pytest.mark.fault(26)
def test_worker_frozen_after_sending_corrects_unknown(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    action = approved()

    def frozen(approved: ApprovedAction) -> None:
        lease_ends()
        assert state_of(action) == "unknown"
        assert offered() == []

    script.later = frozen
    execute(action.pk, worker="test")

    assert state_of(action) == "succeeded"
    assert Attempt.objects.get().verdict == "accepted"
    assert len(server.ledger) == 1


@pytest.mark.fault(26)
def test_worker_frozen_before_wire_sends_nothing(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    action = approved()

    def frozen(approved: ApprovedAction) -> None:
        script.before = lambda approved: None
        lease_ends()
        assert state_of(action) == "approved"
        PendingAction.objects.update(not_before=Now())
        assert execute(action.pk, worker="another")

    script.before = frozen
    execute(action.pk, worker="test")

    assert state_of(action) == "succeeded"
    assert [(attempt.fence, attempt.verdict) for attempt in Attempt.objects.all()] == [
        (1, "not_sent"),
        (2, "accepted"),
    ]
    assert len(server.ledger) == 1


@pytest.mark.fault(26)
def test_ended_lease_is_not_resumed(approved: Callable[..., PendingAction], script: Script) -> None:
    """Check a renewal that is late, before any sweeper: the worker itself must notice."""
    action = approved()
    noticed: list[bool] = []

    def late(approved: ApprovedAction) -> Outcome:
        PendingAction.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        try:
            approved.wire_started()
        except LeaseLost:
            noticed.append(True)
            raise
        return ACCEPTED

    script.instead = late
    execute(action.pk, worker="test")

    assert noticed == [True]
    assert state_of(action) == "approved"


def test_frozen_worker_does_not_start_the_wire_of_a_new_claim(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    action = approved()
    refused: list[bool] = []

    def frozen(first: ApprovedAction) -> None:
        def wakes(second: ApprovedAction) -> None:
            """Let the first worker go on while the second one prepares its send."""
            with pytest.raises(LeaseLost):
                first.wire_started()
            refused.append(True)

        script.before = wakes
        lease_ends()
        PendingAction.objects.update(not_before=Now())
        assert execute(action.pk, worker="another")
        script.before = lambda approved: None

    script.before = frozen
    execute(action.pk, worker="test")

    assert refused == [True]
    assert len(server.ledger) == 1


def test_second_report_of_unknown_changes_nothing(
    approved: Callable[..., PendingAction], script: Script
) -> None:
    """Check a frozen worker that only saw a timeout: it knows no more than the sweeper, and
    reconciliation goes on.
    """
    action = approved()

    def frozen(approved: ApprovedAction) -> Outcome:
        approved.wire_started()
        lease_ends()
        PendingAction.objects.update(probes=2)
        return LOST

    script.instead = frozen
    execute(action.pk, worker="test")

    assert (state_of(action), action.probes) == ("unknown", 2)
    assert (Attempt.objects.get().code, Attempt.objects.get().evidence) == (
        "worker_lost",
        "lease_expired",
    )
    assert AuditEvent.objects.filter(event="outcome_unknown").count() == 1


@pytest.mark.fault(26)
def test_old_fence_changes_nothing_after_a_resend(
    approved: Callable[..., PendingAction], script: Script, alice: User, server: MemoryServer
) -> None:
    action = approved()

    def frozen(approved: ApprovedAction) -> None:
        script.later = lambda approved: None
        lease_ends()
        rulings.resolve(action_id=action.pk, person=alice, ruling="not_sent", fence=1)
        assert execute(action.pk, worker="another")

    script.later = frozen
    execute(action.pk, worker="test")

    assert state_of(action) == "succeeded"
    assert action.fence == 2
    verdicts = [(attempt.verdict, attempt.evidence) for attempt in Attempt.objects.all()]
    assert verdicts == [("accepted", "answer"), ("accepted", "answer")]
    late = AuditEvent.objects.get(event="late_outcome")
    assert late.data == {"fence": 1, "verdict": "accepted", "code": ""}
    assert len(server.ledger) == 2  # the second one was ordered by a person


@pytest.mark.fault(26)
def test_old_fence_changes_nothing_while_the_new_one_sends(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    action = approved()
    script.instead = lambda approved: NOT_NOW
    execute(action.pk, worker="frozen")
    PendingAction.objects.update(not_before=Now())
    script.instead = None
    changed: list[bool] = []

    def late(approved: ApprovedAction) -> None:
        for outcome in (NOT_NOW, LOST):
            changed.append(record_outcome(action.pk, 1, outcome, evidence="answer"))
        assert state_of(action) == "executing"

    script.before = late
    execute(action.pk, worker="test")

    assert changed == [False, False]
    assert state_of(action) == "succeeded"
    assert [attempt.verdict for attempt in Attempt.objects.all()] == ["not_sent", "accepted"]
    assert len(server.ledger) == 1


@pytest.mark.fault(26)
def test_late_acceptance_closes_an_ordered_resend(
    approved: Callable[..., PendingAction], script: Script, alice: User, server: MemoryServer
) -> None:
    action = approved()

    def frozen(approved: ApprovedAction) -> None:
        lease_ends()
        rulings.resolve(action_id=action.pk, person=alice, ruling="not_sent", fence=1)

    script.later = frozen
    execute(action.pk, worker="test")
    work()

    assert state_of(action) == "succeeded"
    assert Attempt.objects.get().evidence == "answer"
    assert len(server.ledger) == 1


def test_exception_is_unsent_before_the_wire_and_unknown_after(
    approved: Callable[..., PendingAction], script: Script
) -> None:
    def fails(approved: ApprovedAction) -> None:
        raise ConnectionError

    script.before = fails
    first = approved()
    execute(first.pk, worker="test")
    script.before, script.later = (lambda approved: None), fails
    second = approved(subject="Second")
    execute(second.pk, worker="test")

    assert (state_of(first), state_of(second)) == ("approved", "unknown")


@pytest.mark.fault(27)
def test_outcome_recorded_twice_counts_once(approved: Callable[..., PendingAction]) -> None:
    """Check a COMMIT that failed but may have committed: the retry changes nothing."""
    action = approved()
    work()
    events = AuditEvent.objects.count()

    assert record_outcome(action.pk, 1, ACCEPTED, evidence="answer") is False

    assert state_of(action) == "succeeded"
    assert AuditEvent.objects.count() == events


@pytest.mark.fault(27)
def test_outcome_is_written_again_after_a_database_error(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    action = approved()
    refused: list[str] = []

    def once(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not refused and 'UPDATE "approvals_attempt"' in sql:
            refused.append(sql)
            raise OperationalError("the database is restarting")
        return execute(sql, params, many, context)

    script.later = lambda approved: connection.execute_wrappers.append(once)
    try:
        execute(action.pk, worker="test")
    finally:
        connection.execute_wrappers.remove(once)

    assert len(refused) == 1
    assert state_of(action) == "succeeded"
    assert len(server.ledger) == 1


@pytest.mark.fault(27)
@pytest.mark.postgres_only
@pytest.mark.parametrize(
    "statement", ['UPDATE "approvals_attempt"', 'UPDATE "approvals_auditchain"']
)
def test_connection_killed_before_the_commit_loses_nothing(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer, statement: str
) -> None:
    action = approved()
    killed: list[int] = []

    def kill_after(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        done = execute(sql, params, many, context)
        if not killed and statement in sql:
            killed.append(connection.connection.info.backend_pid)
            thread = threading.Thread(target=terminate, args=killed)
            thread.start()
            thread.join(10)
        return done

    script.later = lambda approved: connection.execute_wrappers.append(kill_after)
    try:
        execute(action.pk, worker="test")
    finally:
        connection.execute_wrappers.remove(kill_after)

    assert len(killed) == 1
    assert state_of(action) == "succeeded"
    assert Attempt.objects.get().verdict == "accepted"
    assert len(server.ledger) == 1


def terminate(pid: int) -> None:
    """End a session of the server, and wait on a connection of this thread until it is gone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        assert cursor.fetchone() == (True,)
    connection.close()


@pytest.mark.fault(29)
@pytest.mark.parametrize("hours", [1, -1])
def test_clock_jump_on_the_worker_ends_no_lease(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer, hours: int
) -> None:
    action = approved()
    seen: list[str] = []

    def jumped(approved: ApprovedAction) -> None:
        with time_machine.travel(timezone.now() + timedelta(hours=hours)):
            overdue.end_dead_leases()
            seen.append(state_of(action))
            assert execute(action.pk, worker="another") is False

    script.before = jumped
    execute(action.pk, worker="test")

    assert seen == ["executing"]
    assert state_of(action) == "succeeded"
    assert len(server.ledger) == 1


@pytest.mark.fault(29)
@pytest.mark.parametrize("hours", [1, -1])
def test_worker_with_a_wrong_clock_follows_the_database(
    approved: Callable[..., PendingAction], script: Script, hours: int
) -> None:
    """Claim with a worker whose clock is wrong, and judge with one whose clock is right."""
    first, second = approved(), approved(subject="Second")
    script.instead = handed_over
    with time_machine.travel(timezone.now() + timedelta(hours=hours)):
        execute(first.pk, worker="test")
        script.instead = lambda approved: Outcome(
            verdict="not_sent", proof=BEFORE_WIRE, code="unavailable"
        )
        execute(second.pk, worker="test")

    first.refresh_from_db()
    second.refresh_from_db()
    assert first.next_probe_at is not None
    assert second.not_before is not None
    assert 0 < (first.next_probe_at - timezone.now()).total_seconds() <= 15
    assert 0 < (second.not_before - timezone.now()).total_seconds() <= 5


@pytest.mark.fault(29)
def test_dead_lease_ends_by_the_database_clock(
    approved: Callable[..., PendingAction], script: Script
) -> None:
    action = approved()

    def dies(approved: ApprovedAction) -> Outcome:
        PendingAction.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        with time_machine.travel(timezone.now() - timedelta(hours=1)):
            overdue.end_dead_leases()
        assert state_of(action) == "approved"
        return Outcome(verdict="not_sent", proof=BEFORE_WIRE)

    script.instead = dies
    execute(action.pk, worker="test")

    assert state_of(action) == "approved"
    assert Attempt.objects.get().evidence == "lease_expired"


@pytest.mark.fault(29)
@pytest.mark.parametrize(
    ("ahead", "ends"), [(timedelta(hours=6), True), (timedelta(minutes=59), False)]
)
def test_lease_of_a_clock_that_was_ahead_is_ended(
    approved: Callable[..., PendingAction], script: Script, ahead: timedelta, *, ends: bool
) -> None:
    """No worker takes a lease for longer than an hour, so another one blocks its mailbox by mistake."""
    action = approved()

    def dies(approved: ApprovedAction) -> Outcome:
        PendingAction.objects.update(lease_until=Now() + ahead)
        overdue.end_dead_leases()
        assert state_of(action) == ("approved" if ends else "executing")
        return Outcome(verdict="not_sent", proof=BEFORE_WIRE)

    script.instead = dies
    execute(action.pk, worker="test")

    assert Attempt.objects.get().evidence == ("lease_expired" if ends else "answer")
