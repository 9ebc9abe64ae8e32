"""Features of the Celery queue only: RabbitMQ as its broker, and a worker of another queue."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from approvals.core.queue import queue
from tests.approvals.queues.conftest import Site, Worker, asked_to_end
from tests.support.processes.programs import PROJECT, this_test
from tests.support.servers.services import RabbitMQ

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process, pytest.mark.sqlite_only]

with_rabbitmq = pytest.mark.parametrize("kind", ["celery-solo"])


class TestOnRabbitMQ:
    """The common tests with RabbitMQ in place of Redis."""

    @pytest.fixture
    def broker(self) -> Iterator[RabbitMQ]:
        with RabbitMQ() as server:
            yield server

    @pytest.mark.long
    @with_rabbitmq
    def test_mail_leaves_once_although_the_broker_restarts(self, site: Site) -> None:
        worker = site.worker()
        first = site.approved("First")
        for _ in range(3):
            queue().notify(first.pk)
        site.reaches(first, "succeeded")

        assert site.server is not None
        site.server.stop()
        assert site.ready().json()["missing"] == ["queue"]
        unheard = site.approved("Unheard")
        site.server.start()
        site.reaches(unheard, "succeeded")

        assert site.sent() == [first.message_id, unheard.message_id]
        assert asked_to_end(worker) == 0


@pytest.mark.timeout(60)  # a worker's connection may wait longer
@pytest.mark.parametrize("kind", ["celery-solo"])
def test_silent_broker_holds_up_no_approval(site: Site) -> None:
    site.worker()
    first = site.reaches(site.approved("First"), "succeeded")
    assert site.server is not None
    assert site.server.pid is not None

    os.kill(site.server.pid, signal.SIGSTOP)
    try:
        unheard = site.approved("Unheard")
        assert site.ready().json()["missing"] == ["queue"]
    finally:
        os.kill(site.server.pid, signal.SIGCONT)

    site.reaches(unheard, "succeeded")
    assert site.sent() == [first.message_id, unheard.message_id]


def test_worker_of_another_queue_does_not_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "celery", "-A", "mailhub", "worker"]
    with Worker(tmp_path, command, PYTHONPATH=PROJECT, **this_test()) as worker:
        assert worker.wait() != 0
    assert "mailhub cannot start: MAILHUB_QUEUE is database, not celery" in worker.log()
