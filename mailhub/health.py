"""Probes: does the process answer, and can it do its work."""

from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from approvals import heartbeats
from approvals.queues.base import queue


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """The database and the queue answer and a worker is alive; 503 and what is missing otherwise."""
    try:
        workers = len(heartbeats.alive())
        database = True
    except DatabaseError:
        workers, database = 0, False
    found = {"database": database, "queue": queue().answers(), "worker": workers > 0}
    missing = [name for name, there in found.items() if not there]
    return JsonResponse(
        {
            "status": "not ready" if missing else "ok",
            "database": database,
            "queue": found["queue"],
            "workers": workers,
            "missing": missing,
        },
        status=503 if missing else 200,
    )
