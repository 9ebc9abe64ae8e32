"""Celery as the queue: a task is the id of an action; `celery -A mailhub worker` takes it."""

from typing import Any
from uuid import UUID

import structlog
from celery import Celery, current_app, shared_task, signals  # type: ignore[import-untyped]
from django.conf import settings
from django.utils.module_loading import import_string
from kombu.connection import Connection
from kombu.pools import producers

from approvals.queues import workers
from approvals.queues.sweeper import SweeperProcess

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 1.0
# After this time a sweep has notified again, so the task is dropped without a database query.
EXPIRES_SECONDS = 60
# A person waits for the answer to an approval: retry once on a fresh connection, then leave it to
# the sweeper.
PUBLISH_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}


class CeleryQueue:
    """Queue that puts the id into the broker."""

    def __init__(self) -> None:
        # The import makes it the current app of the tasks.
        self._app: Celery = import_string(settings.MAILHUB_CELERY_APP)

    def notify(self, action_id: UUID) -> None:
        with producers[self._connection()].acquire(block=True) as producer:
            carry_out.apply_async(
                (str(action_id),),
                expires=EXPIRES_SECONDS,
                retry=True,
                retry_policy=PUBLISH_POLICY,
                producer=producer,
            )

    def answers(self) -> bool:
        # The errors of a library are known only from its connection object, and creating that may
        # fail.
        try:
            with self._connection() as connection:
                connection.connect()
        except Exception:  # any error means no answer; the page that asks must get one
            log.warning("broker_unreachable", exc_info=True)
            return False
        return True

    def _connection(self) -> Connection:
        """Return a connection to publish over. A Redis that accepts it and stays silent is not waited
        for as long as by a worker.
        """
        names = ("socket_connect_timeout", "socket_timeout")
        on_redis = settings.CELERY_BROKER_URL.startswith("redis")
        options = dict.fromkeys(names, ANSWER_SECONDS) if on_redis else {}
        connection: Connection = self._app.connection_for_write(
            connect_timeout=ANSWER_SECONDS, transport_options=options
        )
        return connection


# No `autoretry_for` and no result: only the row decides about a retry.
@shared_task(name="approvals.carry_out", ignore_result=True)  # type: ignore[untyped-decorator]
def carry_out(action_id: str) -> None:
    workers.carry_out(UUID(action_id))


def _keep_only(kept: str) -> None:
    """Unregister all other tasks.

    Celery brings some of its own that call others, and the broker may name any.
    """
    tasks = current_app.tasks
    for name in set(tasks) - {kept}:
        tasks.unregister(name)


class _Beside:
    """The sweeper of this worker process."""

    sweeper: SweeperProcess | None = None


def _start(**_: Any) -> None:
    _keep_only(carry_out.name)
    workers.prepare()
    _Beside.sweeper = SweeperProcess(worker=workers.worker_name())
    _Beside.sweeper.keep()


def _look_after(**_: Any) -> None:
    if _Beside.sweeper is not None:
        _Beside.sweeper.keep()


def _stop(**_: Any) -> None:
    if _Beside.sweeper is not None:
        _Beside.sweeper.stop()


# These signals are sent only in the worker's main process; a task runs in another.
signals.worker_init.connect(_start)
signals.heartbeat_sent.connect(_look_after)
signals.worker_shutdown.connect(_stop)
