"""The resident sweeper: it sweeps every few seconds, notifies when actions become due, and beats.

It is in every worker, so that no external scheduler is needed. Of several with one home, the first
whose time has come sweeps, and the others leave out that round. RQ's cron and Celery's beat would send
their orders through the broker, and the sweeper has to find exactly the work that was lost there.
rq/cron.py also writes pickle, and ends when Redis goes away. Any number may run at once.
"""

import contextlib
import math
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

import structlog
from django.conf import settings
from django.db import connection
from django.utils import timezone

from approvals.core.queue import queue
from approvals.gate.pauses import restored
from approvals.queues.wakeup import Wakeup
from approvals.worker import dispatch, heartbeats, maintenance

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 5.0
BEAT_SECONDS = 10.0
RECENT = 0.8  # of the time between two sweeps: after another process swept, this one does not
MOST_LEFT_OUT = 3  # sweeps in a row that a process leaves to others
LOOK_SECONDS = 1.0  # how soon it notices that its worker is gone
FAILED_SECONDS = 1.0
END_SECONDS = 5.0
# The health check of a container reads the time of this file, because Django starts slowly.
SIGN = "mailhub-worker"


class Sweeper:
    """A sweeper that runs until `stop`, or until it is no longer `needed`.

    `worker` is the worker for which it gives signs of life, if any.
    """

    def __init__(
        self,
        *,
        worker: str | None,
        every: float = SWEEP_SECONDS,
        needed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._worker = worker
        self._every = every
        self._needed = needed
        self._stopping = False
        self._wakeup = Wakeup()
        self._approved = False
        self._next_sweep = self._next_due = 0.0
        self._left_out = MOST_LEFT_OUT
        self._next_beat = 0.0 if worker else math.inf

    def run(self) -> None:
        while not self._stopping and self._needed():
            try:
                self._round()
                wait = min(self._next_sweep, self._next_due, self._next_beat) - time.monotonic()
            # The database or the broker may be away; the next round uses a new connection.
            except Exception:
                log.exception("sweep_failed", worker=self._worker)
                connection.close()
                wait = FAILED_SECONDS
            self._wakeup.wait(min(wait, LOOK_SECONDS))
        if self._worker:
            with contextlib.suppress(Exception):  # an old heartbeat is deleted later
                heartbeats.forget_worker(self._worker)
        connection.close()

    def notify_approved(self) -> None:
        """Find out when an action that was just approved may leave."""
        self._approved = True
        self._wakeup.wake()

    def stop(self) -> None:
        self._stopping = True
        self._wakeup.wake()

    def _round(self) -> None:
        now = time.monotonic()
        if now < min(self._next_sweep, self._next_due, self._next_beat) and not self._approved:
            return
        if self._worker and now >= self._next_beat:
            heartbeats.beat(self._worker)
            renew_sign()
            self._next_beat = now + BEAT_SECONDS
        restored.compare()
        self._approved = False  # before the query, so that a later approval asks it again
        if now >= self._next_sweep:
            self._next_sweep = now + self._every
            if not self._begin_sweep():
                if self._next_due <= now:
                    self._next_due = self._next_sweep
                return
            next_due = maintenance.sweep(resident=True)
        else:
            if now >= self._next_due:
                for head in dispatch.heads()[: maintenance.BATCH]:
                    queue().notify(head.action)
            next_due = maintenance.next_due()
        # Actions that may leave already are not counted: a notification was sent for them.
        wait = (next_due - timezone.now()).total_seconds() if next_due else SWEEP_SECONDS
        self._next_due = time.monotonic() + max(wait, 0.0)

    def _begin_sweep(self) -> bool:
        """Note that a sweep begins; return False if another process has just begun one.

        The first one is always made, and after a few that others made, one more: a process whose
        sweeps fail begins them, too. There is no lock: a process that hangs would keep it, and two
        sweeps at once do no harm.
        """
        stamp = Path(settings.MAILHUB_HOME) / "sweep.stamp"
        if self._left_out < MOST_LEFT_OUT and stamp.exists():
            age = time.time() - stamp.stat().st_mtime
            if 0 <= age < RECENT * self._every:
                self._left_out += 1
                return False
        self._left_out = 0
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()
        return True


class SweeperProcess:
    """A sweeper in its own process beside a worker, which lives exactly as long.

    A thread would not work: these workers fork, and a fork copies the locks of the threads, but not
    the threads.
    """

    def __init__(self, *, worker: str) -> None:
        self._worker = worker
        self._pid = 0

    def keep(self) -> None:
        """Start it, or start it again if it ended; call it from time to time."""
        if self._pid and not self._has_ended():
            return
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _sweep_for(self._worker, parent)
        self._pid = pid

    def stop(self) -> None:
        """End it, if necessary in the middle of a sweep: the next sweeper goes on from there."""
        if not self._pid:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)
            deadline = time.monotonic() + END_SECONDS
            while not (ended := self._has_ended()) and time.monotonic() < deadline:
                time.sleep(0.02)
            if ended:
                break
        self._pid = 0

    def _has_ended(self) -> bool:
        try:
            return os.waitpid(self._pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True


def _sweep_for(worker: str, parent: int) -> NoReturn:
    """Run the sweeper process.

    It ends with os._exit, so that none of the worker's clean-up runs in it.
    """
    try:
        sweeper = Sweeper(worker=worker, needed=lambda: os.getppid() == parent)

        def stop(number: int, frame: FrameType | None) -> None:
            sweeper.stop()

        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the worker, which ends this
        sweeper.run()
    finally:
        os._exit(0)


def renew_sign() -> None:
    """Set the time of the file that says when a worker of this machine was last well."""
    with contextlib.suppress(OSError):
        path, flags = Path(tempfile.gettempdir(), SIGN), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        file = os.open(path, flags, 0o600)
        try:
            os.utime(file)
        finally:
            os.close(file)
