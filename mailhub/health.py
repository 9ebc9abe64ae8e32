"""Probes: does the process answer, and can it do its work."""

from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from approvals import heartbeats


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """The database answers and a worker is alive; 503 and what is missing otherwise."""
    try:
        workers = heartbeats.alive()
    except DatabaseError:
        return JsonResponse({"status": "not ready", "database": False, "workers": 0}, status=503)
    ready = bool(workers)
    return JsonResponse(
        {"status": "ok" if ready else "not ready", "database": True, "workers": len(workers)},
        status=200 if ready else 503,
    )
