"""The resident worker of the database queue: several threads, several workers, and the
notifications of PostgreSQL.
"""

import select
import signal
from pathlib import Path

import pytest
from django.db import connection

from approvals.models import Attempt
from approvals.queues import channel
from tests.approvals.queues.conftest import Site, asked_to_end
from tests.support.processes.programs import until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("kind", ["database"]),
]


@pytest.fixture
def postgres() -> None:
    if connection.vendor != "postgresql":
        pytest.skip(f"the tests run on {connection.vendor}")


@pytest.fixture
def sqlite() -> None:
    if connection.vendor != "sqlite":
        pytest.skip(f"the tests run on {connection.vendor}")


@pytest.mark.process
@pytest.mark.sqlite_only
def test_threads_send_in_parallel_and_sigterm_lets_them_end(site: Site, more: list[Site]) -> None:
    worker = site.worker("--threads", "3")
    holds = [each.smtp.hold(at="dot") for each in more]
    actions = [each.approved() for each in more]
    for hold in holds:
        hold.wait()  # all three at once, each on its own mailbox
    waiting = site.approved("Waits")
    assert worker.process is not None
    worker.process.send_signal(signal.SIGTERM)
    until(lambda: "worker_ending" in worker.log(), say=worker.log)
    for hold in holds:
        hold.release()

    assert worker.wait() == 0
    for action in actions:
        site.reaches(action, "succeeded")
    assert not Attempt.objects.filter(action=waiting).exists()
    assert [len(each.smtp.ledger) for each in more] == [1, 1, 1]


ONE_THREAD_FAILS = """
import threading
start, failed = threading.Thread.start, []
def refuse_once(self):
    if self.name == "carrier-0" and not failed:
        failed.append(self)
        raise RuntimeError("can't start new thread")
    start(self)
threading.Thread.start = refuse_once
"""


@pytest.mark.process
@pytest.mark.sqlite_only
def test_mail_leaves_although_no_thread_was_left_at_first(site: Site, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(ONE_THREAD_FAILS)
    site.environment["PYTHONPATH"] = f"{tmp_path}:{site.environment['PYTHONPATH']}"
    worker = site.worker()
    site.reaches(site.approved(), "succeeded")
    assert "carrier_not_started" in worker.log()
    assert asked_to_end(worker) == 0


@pytest.mark.sqlite_only
def test_two_sqlite_workers_share_notifications(site: Site, sqlite: None) -> None:
    first, second = channel.FifoChannel(), channel.FifoChannel()
    try:
        actions = [site.approved(f"Mail {number}").pk for number in range(5)]
        assert first.read(2) == actions[:2]
        assert second.read(1) == actions[2:3]
        assert first.read(9) == actions[3:]
        assert second.read(1) == []
    finally:
        first.close()
        second.close()


@pytest.mark.postgres_only
@pytest.mark.usefixtures("postgres")
def test_postgresql_notification_wakes_the_worker_at_once(site: Site) -> None:
    listening = channel.listen()
    try:
        assert listening.fileno() is None
        assert listening.reconnect()
        action = site.approved()
        until(lambda: readable(listening))
        assert listening.read(1) == [action.pk]
        assert not readable(listening)
    finally:
        listening.close()


@pytest.mark.postgres_only
@pytest.mark.usefixtures("postgres")
def test_lost_notification_connection_is_restored(site: Site) -> None:
    listening = channel.listen()
    try:
        assert listening.reconnect()
        end_connections("query LIKE 'LISTEN %'")
        until(lambda: unheard(listening))
        assert listening.reconnect()
        action = site.approved()
        until(lambda: readable(listening))
        assert listening.read(1) == [action.pk]
    finally:
        listening.close()


@pytest.mark.postgres_only
@pytest.mark.usefixtures("postgres")
def test_worker_survives_the_loss_of_all_connections(site: Site) -> None:
    worker = site.worker("--threads", "2")
    first = site.reaches(site.approved("First"), "succeeded")
    end_connections("application_name = 'mailhub worker'")
    second = site.reaches(site.approved("Second"), "succeeded")

    assert site.sent() == [first.message_id, second.message_id]
    assert asked_to_end(worker) == 0


def readable(listening: channel.Channel) -> bool:
    heard = listening.fileno()
    assert heard is not None
    return bool(select.select([heard], [], [], 0)[0])


def unheard(listening: channel.Channel) -> bool:
    """Read like the worker whenever there is input; return True once none arrives any more."""
    if listening.fileno() is not None and readable(listening):
        listening.read(1)
    return listening.fileno() is None


def end_connections(condition: str) -> None:
    """Close client connections as a restart of the server does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            f" WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}"
        )
        assert cursor.fetchone()[0] > 0
