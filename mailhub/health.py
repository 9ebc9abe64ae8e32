"""Probes: the process answers, and it can do its work."""

from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from approvals.core.queue import queue
from approvals.pauses.switch import own_pause_reason
from approvals.worker import heartbeats
from approvals.worker.dispatch import some_wait_too_long
from approvals.worker.maintenance import measure_overdue

OVERDUE_SECONDS = 3600.0  # longer than a backlog takes when many mailboxes are reachable again


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Return 200, which shows that the process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 if the database and the queue answer, a worker is alive, the database knows all
    sends, mail is being sent, and the work after sends is done; else 503 with the missing parts.
    """
    try:
        workers = len(heartbeats.alive())
        paused = own_pause_reason()
        sending = not some_wait_too_long()
        following = max(measure_overdue().values()) < OVERDUE_SECONDS
        database = True
    except DatabaseError:
        workers, paused, sending, following, database = 0, "", True, True, False
    found = {
        "database": database,
        "queue": queue().answers(),
        "worker": workers > 0,
        "reconciled": not paused,
        "sending": sending,
        "following_up": following,
    }
    missing = [name for name, there in found.items() if not there]
    return JsonResponse(
        {
            "status": "not ready" if missing else "ok",
            "database": database,
            "queue": found["queue"],
            "workers": workers,
            "missing": missing,
            **({"paused": paused} if paused else {}),
        },
        status=503 if missing else 200,
    )
