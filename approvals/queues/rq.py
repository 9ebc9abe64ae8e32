"""RQ as the queue: a job is the id of an action; `manage.py rqworker` takes it."""

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any
from uuid import UUID

import rq
import rq.job
from django.conf import settings
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from rq.serializers import JSONSerializer

from approvals.queues import workers
from approvals.queues.sweeper import SweeperProcess

QUEUE = "default"
OUR_FUNCTION = f"{__name__}.carry_out"
ANSWER_SECONDS = 1.0
KEPT_SECONDS = 60  # the row and the log say everything that a failed job says
GRACE_SECONDS = 60
LOOK_SECONDS = 5  # how often a worker, idle or busy, checks its sweeper


class RefusedJob(Exception):
    """Raised for a job that is not one of ours. RQ records it as failed."""


class ActionJob(rq.job.Job):
    """A job that runs only `carry_out`.

    RQ imports and calls any function that a job in Redis names, and its callbacks as well. So
    without this class anybody who can write to Redis runs code in the worker.
    """

    def restore(self, raw_data: Any) -> Any:
        restored = super().restore(raw_data)
        self._success_callback_name = self._failure_callback_name = self._stopped_callback_name = (
            None
        )
        self.webhooks = []
        return restored

    @property
    def func(self) -> Callable[[str], None]:
        if self.instance is not None or self.func_name != OUR_FUNCTION:
            raise RefusedJob
        return carry_out


class RqQueue:
    """Queue that puts the id into Redis."""

    def __init__(self) -> None:
        # A person waits for the answer to an approval: retry once on a fresh connection if the kept
        # one is dead, then leave it to the sweeper.
        self._redis = Redis.from_url(
            settings.REDIS_URL,
            socket_connect_timeout=ANSWER_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 1),
        )
        self._queue = rq.Queue(
            QUEUE, connection=self._redis, serializer=JSONSerializer, job_class=ActionJob
        )

    def notify(self, action_id: UUID) -> None:
        job_id = str(action_id)
        if self._redis.lpos(self._queue.key, job_id) is not None:
            # it waits already: the sweeps of every few seconds must not fill the queue while
            # workers are behind
            return
        # No `retry`: only the row decides about a retry. No `unique` either: the job of a worker
        # that was killed would block the next one.
        self._queue.enqueue(
            carry_out,
            job_id,
            job_id=job_id,
            description=job_id,
            job_timeout=2 * settings.MAILHUB_WIRE_TIMEOUT_SECONDS + GRACE_SECONDS,
            result_ttl=0,
            failure_ttl=KEPT_SECONDS,
        )

    def answers(self) -> bool:
        try:
            return bool(self._redis.ping())
        except RedisError:
            return False


def carry_out(action_id: str) -> None:
    """Carry the action of a job out."""
    workers.carry_out(UUID(action_id))


class _Companion:
    """The common part of both RQ workers: JSON, a sweeper, and a record of a request to end."""

    max_connection_wait_time = 5.0  # RQ doubles it, and may wait up to a minute after Redis is back
    log_result_lifespan = False
    sweeper: SweeperProcess | None = None
    asked_to_end = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # rqworker passes pickle unless an option says otherwise, whatever the queue says.
        options |= {
            "serializer": JSONSerializer,
            "job_class": ActionJob,
            "job_monitoring_interval": LOOK_SECONDS,
        }
        super().__init__(*arguments, **options)

    @property
    def dequeue_timeout(self) -> int:
        return LOOK_SECONDS

    def heartbeat(self, *arguments: Any, **options: Any) -> None:
        super().heartbeat(*arguments, **options)  # type: ignore[misc]
        if _Companion.sweeper is not None and not self.is_horse:  # type: ignore[attr-defined]
            _Companion.sweeper.keep()

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        _Companion.asked_to_end = True
        super().request_stop(signum, frame)  # type: ignore[misc]


class ForkingWorker(_Companion, rq.Worker):
    """Worker that forks for each job: a send that crashes affects nothing else. The default."""

    def setup_work_horse_signals(self) -> None:
        """Ignore SIGTERM in the child, so that a send that is under way is finished.

        A SIGTERM to a whole group or container reaches the worker as well, which then ends.
        """
        super().setup_work_horse_signals()  # type: ignore[no-untyped-call]
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class ResidentWorker(_Companion, rq.SimpleWorker):
    """Worker in its own process: faster, since it keeps connections (`rqworker --worker-class`)."""


def keep_working(work: Callable[[], None], *, once: bool) -> None:
    """Run rqworker, and restart it if it ends unasked.

    RQ gives up if Redis goes away between two jobs.
    """
    workers.prepare()
    _Companion.sweeper = SweeperProcess(worker=workers.worker_name())
    try:
        while not _Companion.asked_to_end:
            _wait_for_redis()
            try:
                work()
            except SystemExit as end:
                if end.code != 1:  # a connection that failed; any other end was requested
                    raise
            if once:
                return
    finally:
        _Companion.sweeper.stop()


def _wait_for_redis() -> None:
    """Sweep on while Redis is away; a worker without work may be ended at any moment."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    while True:
        assert _Companion.sweeper is not None
        _Companion.sweeper.keep()
        if RqQueue().answers():
            return
        time.sleep(ANSWER_SECONDS)
