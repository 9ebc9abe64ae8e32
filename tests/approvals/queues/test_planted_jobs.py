"""An attacker with write access to the broker can delay mail, but runs no code: workers accept only
our job.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rq
from celery import Celery  # type: ignore[import-untyped]
from kombu.connection import Connection
from kombu.entity import Exchange
from redis import Redis as RedisClient
from redis.exceptions import NoPermissionError
from rq.serializers import JSONSerializer

from tests.approvals.queues.conftest import Site, asked_to_end
from tests.approvals.queues.planted import pickled
from tests.support.processes.programs import PROJECT, until
from tests.support.servers.services import Redis

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]
PLANTED = "tests.approvals.queues.planted"
OURS = "approvals.queues.rq.carry_out"


@pytest.mark.parametrize("kind", ["rq", pytest.param("rq-resident", marks=pytest.mark.long)])
def test_rq_worker_runs_no_function_from_redis(site: Site, keys: Any, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    connection = RedisClient.from_url(str(site.environment["REDIS_URL"]))
    jobs = rq.Queue("default", connection=connection, serializer=JSONSerializer)
    jobs.enqueue(f"{PLANTED}.leave_trace", str(trace), job_id="named")
    jobs.enqueue("os.system", f"touch {trace}", job_id="system")
    for event in ("on_failure", "on_success", "on_stopped"):
        told = rq.Callback(f"{PLANTED}.leave_trace_of_job")
        jobs.enqueue(OURS, "no-id", str(trace), job_id=event, **{event: told})
    connection.hset("rq:job:pickled", "data", pickled(trace))
    connection.lpush("rq:queue:default", "pickled")

    site.worker()
    # it was queued after them, and the worker still runs
    site.reaches(site.approved(), "succeeded")

    until(lambda: keys.llen("rq:queue:default") == 0, say=site.log)
    assert not trace.exists()


@pytest.mark.parametrize("kind", ["celery", pytest.param("celery-solo", marks=pytest.mark.long)])
def test_celery_worker_runs_no_task_but_ours(site: Site, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    broker = str(site.environment["CELERY_BROKER_URL"])
    app = Celery(broker=broker)
    app.conf.task_default_queue = "mailhub"
    for name in ("celery.map", "celery.chunks", "approvals.sweep", "os.system"):
        app.send_task(name, ({"task": "approvals.carry_out", "args": []}, [[]]), ignore_result=True)
    exchange = Exchange("mailhub")  # type: ignore[no-untyped-call]
    with Connection(broker) as connection:  # type: ignore[no-untyped-call]
        connection.Producer(exchange=exchange, routing_key="mailhub").publish(
            pickled(trace),
            content_type="application/x-python-serialize",
            content_encoding="binary",
            headers={"task": "approvals.carry_out", "id": "planted"},
        )

    worker = site.worker()
    site.reaches(site.approved(), "succeeded")

    assert not trace.exists()
    log = worker.log()
    assert log.count("unregistered") >= 3, log


class GuardedRedis(Redis):
    """A Redis with the users of the deployment, as docs/operate/deploy.md creates the file."""

    @property
    def url(self) -> str:
        return f"redis://mailhub:secret@127.0.0.1:{self.port}/0"

    def prepare(self) -> None:
        text = (PROJECT / "docs/operate/deploy.md").read_text()
        users = next(
            part
            for part in re.findall(r"printf '([^']*)'", text)
            if part.startswith("user default")
        )
        self.users.write_text(
            users.replace("\\n", "\n").replace("%s", sha256(b"secret").hexdigest())
        )

    def command(self) -> Sequence[str | Path]:
        return [*super().command(), "--aclfile", self.users]

    @property
    def users(self) -> Path:
        return self.folder / "users.acl"


class TestWithPassword:
    """Tests on a Redis that requires the password."""

    @pytest.fixture
    def broker(self) -> Iterator[GuardedRedis]:
        with GuardedRedis() as server:
            yield server

    @pytest.mark.parametrize("kind", ["rq", pytest.param("celery-solo", marks=pytest.mark.long)])
    def test_redis_with_users_carries_mail(self, site: Site) -> None:
        worker = site.worker()
        site.reaches(site.approved(), "succeeded")
        assert "queue" not in site.ready().json()["missing"]
        assert asked_to_end(worker) == 0

    @pytest.mark.parametrize("kind", ["rq"])
    def test_redis_with_users_answers_strangers_with_ping_only(self, site: Site) -> None:
        assert site.server is not None
        stranger = RedisClient(port=site.server.port)
        assert stranger.ping()
        for ask in (
            lambda: stranger.lpush("rq:queue:default", "x"),
            lambda: stranger.keys(),
            lambda: stranger.get("a"),
        ):
            with pytest.raises(NoPermissionError):
                ask()
        known = RedisClient.from_url(str(site.environment["REDIS_URL"]))
        for danger in (known.flushall, lambda: known.config_get("*"), lambda: known.keys("*")):
            with pytest.raises(NoPermissionError):
                danger()
