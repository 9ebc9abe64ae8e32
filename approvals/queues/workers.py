"""The parts of a worker process that are equal for all queues."""

import os
import socket
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, close_old_connections, connections
from django.utils.module_loading import import_string

from accounts.models import Mailbox
from approvals.core.types import get_kind
from approvals.gate import settle as settling
from approvals.gate.execute import execute
from approvals.gate.pauses import restored

log = structlog.get_logger(__name__)

HOST_CHARACTERS = 80  # with the pid and the mark of a claim it fits the column


def host_name() -> str:
    return socket.gethostname()[:HOST_CHARACTERS]


def worker_name() -> str:
    """Return the name of this worker, for attempts and heartbeats."""
    return f"{host_name()}:{os.getpid()}"


def prepare() -> None:
    """Make this process a worker; call it once, before it forks or starts threads.

    1. Keep one database connection for each thread. A pool is for many short requests, and its
       helper threads would not survive a fork.
    2. Load the code that a job needs now, so that a fork finds it in memory. A provider without a
       mailbox stays unloaded, because its HTTP library takes memory.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    connection.close()
    if connection.settings_dict["OPTIONS"].get("pool"):
        connection.close_pool()  # type: ignore[attr-defined]
        del connection.settings_dict["OPTIONS"]["pool"]
    connection.settings_dict["CONN_MAX_AGE"] = None
    connection.settings_dict["CONN_HEALTH_CHECKS"] = True
    del connections[DEFAULT_DB_ALIAS]  # the next connection uses these settings
    for kind in settings.MAILHUB_KINDS:
        get_kind(kind)
    try:
        used = set(Mailbox.objects.values_list("provider", flat=True).distinct().order_by())
        # A mailbox of a provider that is not in the settings must not stop the others.
        for provider in used & settings.MAILHUB_PROVIDERS.keys():
            import_string(settings.MAILHUB_PROVIDERS[provider])
        # here, so that forked processes need not compare everything again
        restored.compare()
    except DatabaseError:  # the missing parts are made when they are needed
        log.warning("database_unavailable", worker=worker_name())
    finally:
        connections[DEFAULT_DB_ALIAS].close()


def carry_out(action_id: UUID, *, settle: bool = True) -> bool:
    """Carry one action out and do the work after it; return True if this worker carried it out.

    It raises nothing. The row says which work is left, and the sweeper reads it. A queue would
    store the text of an exception, or retry on its own.
    """
    try:
        close_old_connections()
        if not execute(action_id, worker=worker_name()):
            return False
        if settle:
            settling.settle_one(action_id)
    except Exception:
        log.exception("carrying_out_failed", action=str(action_id))
        return False
    return True
