"""A server of PostgreSQL that became read-only and keeps its connections, as in a failover: mailhub
connects again, and loses nothing.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import InternalError, ProgrammingError, close_old_connections, connection
from django.db.backends.signals import connection_created

from approvals.core.types import ApprovedAction, Outcome
from approvals.gate import overdue
from approvals.gate.execute import execute
from approvals.models import PendingAction
from approvals.queues.workers import carry_out
from approvals.worker import heartbeats
from tests.approvals.kinds import NOT_NOW, Script
from tests.conftest import Api
from tests.support.processes.programs import until
from tests.support.servers.memory import MemoryServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres_only]


def become_read_only(_: object = None, *, beside: Any = connection) -> None:
    """Make the server of this connection read-only; a new connection reaches the new primary."""
    with beside.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")


@pytest.fixture(autouse=True)
def worker(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Keep one connection, as a worker does, but check its health only after an error."""
    connection.close()
    with monkeypatch.context() as patched:
        patched.setitem(connection.settings_dict, "CONN_MAX_AGE", None)
        patched.setitem(connection.settings_dict["OPTIONS"], "pool", None)
        yield patched
        connection.close()


def test_outcome_is_recorded_on_a_new_connection(
    approved: Callable[[], PendingAction], script: Script, server: MemoryServer
) -> None:
    action = approved()
    script.later = become_read_only
    carry_out(action.pk, settle=False)
    action.refresh_from_db()
    assert (len(server.ledger), action.status) == (1, "succeeded")


def test_claim_that_failed_does_not_fail_again(
    approved: Callable[[], PendingAction], server: MemoryServer
) -> None:
    action = approved()
    become_read_only()
    assert not carry_out(action.pk, settle=False)
    assert carry_out(action.pk, settle=False)
    assert len(server.ledger) == 1


def test_worker_notices_it_before_the_claim(
    worker: pytest.MonkeyPatch, approved: Callable[[], PendingAction], server: MemoryServer
) -> None:
    connection.close()
    worker.setitem(connection.settings_dict, "CONN_HEALTH_CHECKS", True)
    action = approved()
    become_read_only()
    assert carry_out(action.pk, settle=False)
    assert len(server.ledger) == 1


def test_error_that_is_not_the_rows_own_closes_the_connection() -> None:
    def process() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return int(cursor.fetchone()[0])

    before = process()
    with pytest.raises(ProgrammingError), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM nowhere")
    close_old_connections()
    assert process() != before


def test_pool_does_not_hand_the_connection_out_again(worker: pytest.MonkeyPatch) -> None:
    worker.undo()
    connection.close()
    become_read_only()
    with pytest.raises(InternalError):
        heartbeats.beat("first")
    close_old_connections()
    for name in ("second", "third"):
        heartbeats.beat(name)
        close_old_connections()


def test_task_of_the_sweep_that_failed_does_not_stop_the_next(
    api: Api, approved: Callable[[], PendingAction]
) -> None:
    late, action = api.propose(), approved()
    PendingAction.objects.filter(pk=late).update(expires_at="2020-01-01T00:00Z")
    become_read_only()
    overdue.expire()
    assert carry_out(action.pk, settle=False)


def test_lease_is_renewed_on_a_new_connection(
    approved: Callable[[], PendingAction], script: Script, settings: Any
) -> None:
    settings.MAILHUB_LEASE_SECONDS = 3
    connections = []

    def watch(connection: Any, **_: object) -> None:
        if threading.current_thread().name.startswith("lease-"):
            connections.append(connection)
            if len(connections) == 1:
                become_read_only(beside=connection)

    def outlive(approved: ApprovedAction) -> Outcome:
        def is_renewed() -> bool:
            return PendingAction.objects.filter(lease_until__gt=before.lease_until).exists()

        before = PendingAction.objects.get()
        until(is_renewed)
        return NOT_NOW

    action = approved()
    script.instead = outlive
    connection_created.connect(watch)
    try:
        execute(action.pk, worker="test")
    finally:
        connection_created.disconnect(watch)
    assert len(connections) > 1
