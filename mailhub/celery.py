"""The Celery app: `celery -A mailhub worker`. It carries ids to workers and stores nothing."""

import os

from celery import Celery, signals  # type: ignore[import-untyped]
from django.conf import settings
from kombu.transport import redis

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mailhub.settings")

MINUTE = 60
ON_REDIS = settings.CELERY_BROKER_URL.startswith("redis")

# When a connection to Redis is lost, kombu restores unacknowledged messages over that lost
# connection, and the AttributeError ends the worker. Nothing must be restored here, because the
# sweeper notifies again.
redis.Channel.do_restore = False

app = Celery("mailhub")
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL
    or "memory://",  # never Celery's own default, a RabbitMQ on this host
    broker_connection_timeout=1,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # Redis delivers a message again if it is not acknowledged in time; the shortest value of all
    # apps on one Redis counts. A task that is delivered twice finds nothing to claim.
    broker_transport_options={
        "visibility_timeout": max(60 * MINUTE, 3 * settings.MAILHUB_WIRE_TIMEOUT_SECONDS),
        "socket_connect_timeout": 1,
        "socket_timeout": 30,
    }
    if ON_REDIS
    else {},
    imports=["approvals.queues.celery"],
    task_default_queue="mailhub",
    task_serializer="json",
    accept_content=["json"],
    event_serializer="json",
    # Commands over the broker could change what a worker does; mailhub uses signals instead.
    worker_enable_remote_control=False,
    result_backend=None,
    task_ignore_result=True,
    # Acknowledged when received, not when done. A second delivery after a crash would not help: the
    # lease of the dead worker holds the row, and when it ends the sweeper notifies again. And on
    # Redis a late acknowledgement ends the worker if the connection was lost meanwhile (kombu 5.7
    # sends it over the lost channel).
    task_acks_late=False,
    task_time_limit=2 * settings.MAILHUB_WIRE_TIMEOUT_SECONDS + 2 * MINUTE,
    worker_concurrency=4,  # one slow mailbox must not delay the others
    worker_prefetch_multiplier=1,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    # Celery's name for the number of tasks before a database connection is closed. Connections are
    # kept, and checked when used.
    CELERY_DB_REUSE_MAX=2**31,
)


def _logs_are_ours(**_: object) -> None:
    """Make Celery leave logging as mailhub.operations.logs has set it up; a receiver is enough for that."""


def _refuse_another_queue(**_: object) -> None:
    if settings.MAILHUB_QUEUE != "celery":
        raise SystemExit(
            f"mailhub cannot start: MAILHUB_QUEUE is {settings.MAILHUB_QUEUE}, not celery"
        )


def _refuse_wrong_keys(**_: object) -> None:
    from approvals.audit import key_check  # Django is set up now

    try:
        key_check.require()
    except key_check.WrongKeys as error:
        raise SystemExit(f"mailhub cannot start: {error}") from None


signals.setup_logging.connect(_logs_are_ours)
signals.worker_init.connect(_refuse_another_queue)
signals.worker_init.connect(_refuse_wrong_keys)
