"""Probes: the process answers, and it can do its work."""

from contextlib import suppress

from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from approvals.core.queue import queue
from approvals.pauses.switch import own_pause_reason
from approvals.worker import heartbeats
from approvals.worker.dispatch import some_lack_the_journal, some_wait_too_long
from approvals.worker.maintenance import measure_overdue

OVERDUE_SECONDS = 3600.0  # longer than a backlog takes when many mailboxes are reachable again


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Return 200, which shows that the process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 if the database and the queue answer and a worker is alive; else 503 with what is
    missing. A pause changes nothing here, so its pages stay in reach.
    """
    return _answer(*_look()[:2])


@require_safe
def statusz(request: HttpRequest) -> JsonResponse:
    """Return 200 if nothing is wrong: `/readyz`, the database knows all sends, the send journal can
    be written, mail is being sent, and the work after sends is done; else 503 with what is missing.
    """
    found, workers, paused = _look()
    if found["database"]:
        with suppress(DatabaseError):  # it went away a moment ago; the next answer says so
            found |= {
                "reconciled": not paused,
                "journal": not some_lack_the_journal(),
                "sending": not some_wait_too_long(),
                "following_up": max(measure_overdue().values()) < OVERDUE_SECONDS,
            }
    return _answer(found, workers, **({"paused": paused} if paused else {}))


def _look() -> tuple[dict[str, bool], int, str]:
    try:
        workers, paused, database = len(heartbeats.alive()), own_pause_reason(), True
    except DatabaseError:
        workers, paused, database = 0, "", False
    found = {"database": database, "queue": queue().answers(), "worker": workers > 0}
    return found, workers, paused


def _answer(found: dict[str, bool], workers: int, **more: str) -> JsonResponse:
    missing = [name for name, there in found.items() if not there]
    said = {
        "status": "not ready" if missing else "ok",
        "database": found["database"],
        "queue": found["queue"],
        "workers": workers,
        "missing": missing,
    }
    return JsonResponse(said | more, status=503 if missing else 200)
