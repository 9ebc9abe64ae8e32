"""The default queue: a resident worker that finds due actions in the table, woken by a bell.

The bell is a FIFO in MAILHUB_HOME: writing one byte wakes a waiting worker at once, without a fast poll. A bell that
is lost, or rung on another host, costs at most until the next sweep.
"""

import errno
import os
import select
import signal
import socket
import time
from pathlib import Path
from types import FrameType
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections, connection
from django.utils import timezone

from approvals import heartbeats, maintenance
from approvals.execution import execute
from approvals.models import PendingAction
from approvals.states import Status

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 2.0
BEAT_SECONDS = 5.0


def bell_path() -> Path:
    return Path(settings.MAILHUB_HOME) / "bell"


class DatabaseQueue:
    """Rings the bell of a worker on this host, if one listens."""

    def ring(self, action_id: UUID) -> None:
        try:
            bell = os.open(bell_path(), os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):  # nobody listens: the sweep finds it
                return
            raise
        try:
            os.write(bell, b"!")
        except BlockingIOError:
            pass  # so many rings that the pipe is full: the worker is awake
        finally:
            os.close(bell)


class Worker:
    """Sweeps, carries out what is due, and sleeps until the bell, the next due time or the next sweep."""

    def __init__(self) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._stopping = False
        self._bell = self._listen()
        self._wake_r, self._wake_w = os.pipe()

    def run(self) -> None:
        """Work until SIGTERM or SIGINT; a send that is under way is finished first."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        log.info("worker_started", worker=self.name)
        next_sweep = next_beat = 0.0
        while not self._stopping:
            try:
                close_old_connections()
                if time.monotonic() >= next_beat:
                    heartbeats.beat(self.name)
                    next_beat = time.monotonic() + BEAT_SECONDS
                if time.monotonic() >= next_sweep:
                    maintenance.sweep()
                    next_sweep = time.monotonic() + SWEEP_SECONDS
                self._drain()
                wait = min(next_sweep - time.monotonic(), self._until_due())
            except DatabaseError:
                log.exception("database_unavailable", worker=self.name)
                connection.close()
                wait = 1.0
            self._sleep(max(wait, 0.0))
        heartbeats.gone(self.name)
        log.info("worker_stopped", worker=self.name)

    def _drain(self) -> None:
        for action_id in maintenance.due():
            if self._stopping:
                return
            if execute(action_id, worker=self.name):
                maintenance.settle()

    def _until_due(self) -> float:
        """Seconds until the next approved action may leave; when it has come, a claim did not succeed: no hurry."""
        soonest = (
            PendingAction.objects.filter(status=Status.APPROVED, not_before__gt=timezone.now())
            .order_by("not_before")
            .values_list("not_before", flat=True)
            .first()
        )
        return (soonest - timezone.now()).total_seconds() if soonest else SWEEP_SECONDS

    def _sleep(self, seconds: float) -> None:
        ready, _, _ = select.select([self._bell, self._wake_r], [], [], seconds)
        if self._bell in ready:
            os.read(self._bell, 65536)

    def _listen(self) -> int:
        path = bell_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_fifo():
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)
        # Opened for reading and writing, so that it is never at end of file when the last ringer closes it.
        return os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        os.write(self._wake_w, b"!")
