"""Probes: the process answers, it can do its work, and the whole system does its work."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from approvals.audit import key_check
from approvals.core.queue import queue
from approvals.gate.pauses import restored, switch
from approvals.worker import heartbeats
from approvals.worker.dispatch import measure_standstill, some_lack_the_journal
from approvals.worker.maintenance import measure_overdue

OVERDUE_SECONDS = 3600.0  # longer than a backlog takes when many mailboxes are reachable again
LEAST_FREE_BYTES = 16 * 1024 * 1024
PARTS = (
    "database", "keys", "queue", "worker", "reconciled", "journal", "home", "sending", "following_up",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class System:
    """The parts that the system has, by the names in PARTS, and figures about what it lacks."""

    found: dict[str, bool]
    workers: int = 0
    paused: str = ""
    oldest_due_seconds: float = 0.0
    overdue_seconds: dict[str, float] = field(default_factory=dict)
    codes: list[str] = field(default_factory=list)


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Return 200, which shows that the process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 if this process can show pages and take proposals: its database answers, and its
    keys are those of the database.

    Nothing else counts. Without workers, or in a pause, people still need their pages.
    """
    found = {"database": False, "keys": True}
    with suppress(DatabaseError):
        found = {"database": True, "keys": not key_check.find_wrong()}
    return _answer(found)


@require_safe
def statusz(request: HttpRequest) -> JsonResponse:
    """Return 200, or 503 with what the system lacks. A person's pause is shown and is no fault."""
    system = look()
    more = {
        "workers": system.workers,
        "oldest_due_seconds": round(system.oldest_due_seconds),
        "overdue_seconds": {name: round(age) for name, age in system.overdue_seconds.items()},
        "codes": system.codes,
    }
    return _answer(system.found, **more, **({"paused": system.paused} if system.paused else {}))


def look() -> System:
    """Look at each part of the system."""
    found = {"database": False, "queue": queue().answers(), "home": has_room()}
    try:
        workers, own_pause = len(heartbeats.alive()), switch.own_pause_reason()
        standstill, overdue = measure_standstill(), measure_overdue()
        return System(
            found=found
            | {
                "database": True,
                "keys": not key_check.find_wrong(),
                "worker": workers > 0,
                "reconciled": not own_pause,
                "journal": not some_lack_the_journal(),
                "sending": not standstill.stuck,
                "following_up": max(overdue.values()) < OVERDUE_SECONDS,
            },
            workers=workers,
            paused=own_pause or ("A person." if switch.is_everything_paused() else ""),
            oldest_due_seconds=standstill.oldest_seconds,
            overdue_seconds=overdue,
            codes=standstill.codes,
        )
    except DatabaseError:
        return System(found=found)


def has_room() -> bool:
    """Return True if home and send journal can be written, and their disks have room."""
    folders = {Path(settings.MAILHUB_HOME), restored.journal_file().parent}
    return all(os.access(each, os.W_OK) and free_bytes(each) > LEAST_FREE_BYTES for each in folders)


def free_bytes(folder: Path) -> int:
    """Return the room for this process on the disk of a folder; 0 if it cannot be read."""
    with suppress(OSError):
        disk = os.statvfs(folder)
        return disk.f_bavail * disk.f_frsize
    return 0


def _answer(found: dict[str, bool], **more: Any) -> JsonResponse:
    missing = [name for name in PARTS if not found.get(name, True)]
    said = {"status": "not ready" if missing else "ok", "missing": missing, **more}
    return JsonResponse(said, status=503 if missing else 200)
