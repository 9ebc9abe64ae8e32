"""RQ as the bell: a job is the id of an action; `manage.py rqworker` takes it."""

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
KEPT_SECONDS = 60  # a job that failed says nothing that the row and the log do not say
GRACE_SECONDS = 60
LOOK_SECONDS = 5  # how often a worker, idle or busy, looks after its sweeper


class RefusedJob(Exception):
    """A job that is not one of ours. RQ records it as failed."""


class ActionJob(rq.job.Job):
    """A job that runs `carry_out` and nothing else.

    RQ imports and calls whatever function a job in Redis names, and the functions it names to be
    told of the end. So without this class anybody who can write to Redis runs code in the worker.
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
    """Puts the id into Redis."""

    def __init__(self) -> None:
        # A person waits for the answer to an approval: one try on a fresh connection if the kept
        # one is dead, then it is the sweeper's.
        self._redis = Redis.from_url(
            settings.REDIS_URL,
            socket_connect_timeout=ANSWER_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 1),
        )
        self._queue = rq.Queue(
            QUEUE, connection=self._redis, serializer=JSONSerializer, job_class=ActionJob
        )

    def ring(self, action_id: UUID) -> None:
        job_id = str(action_id)
        if self._redis.lpos(self._queue.key, job_id) is not None:
            # it waits already: a sweep every few seconds must not fill the queue while workers are
            # behind
            return
        # No `retry`: whether to try again is the row's decision alone. No `unique` either: the job
        # of a worker that was killed would stand in the way of the next one.
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
    """The job."""
    workers.carry_out(UUID(action_id))


class _Companion:
    """What both workers add to RQ's: JSON, a sweeper beside them, and to know that they were asked
    to end.
    """

    max_connection_wait_time = 5.0  # RQ doubles it up to a minute after Redis is back
    log_result_lifespan = False
    sweeper: SweeperProcess | None = None
    asked_to_end = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # rqworker hands over pickle unless told otherwise, whatever the queue says.
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
    """Forks for each job: a send that goes wrong takes nothing else along. The default."""

    def setup_work_horse_signals(self) -> None:
        """Whoever ends a whole group or container asks the worker; a send that is under way is
        finished.
        """
        super().setup_work_horse_signals()  # type: ignore[no-untyped-call]
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class ResidentWorker(_Companion, rq.SimpleWorker):
    """Works in its own process: faster, because connections are kept (`rqworker --worker-class`)."""


def keep_working(work: Callable[[], None], *, once: bool) -> None:
    """Run rqworker, and again whenever it ends unasked: RQ gives up when Redis goes away between
    two jobs.
    """
    workers.prepare()
    _Companion.sweeper = SweeperProcess(worker=workers.worker_name())
    try:
        while not _Companion.asked_to_end:
            _wait_for_redis()
            try:
                work()
            except SystemExit as end:
                if end.code != 1:  # a connection that failed; anything else was asked for
                    raise
            if once:
                return
    finally:
        _Companion.sweeper.stop()


def _wait_for_redis() -> None:
    """Sweep on while there is no Redis; a worker that has nothing to do may be ended at any moment."""

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
