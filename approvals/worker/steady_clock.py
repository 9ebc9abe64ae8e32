"""The database's clock, compared with the uptime of this machine, which nobody sets.

A clock that is ahead by mistake makes everything late at once. Approvals and sends are judged at
the time of use, so they are right again with the clock. Tasks that cannot be undone wait.
"""

import time
from collections.abc import Callable
from datetime import datetime

import structlog

log = structlog.get_logger(__name__)

JUMP_SECONDS = 60.0
START_SECONDS = 300.0  # after a start, when a machine may still correct its clock
STEADY_SECONDS = 3600.0  # after a jump


def read_uptime() -> float:
    """Return the seconds since the machine was started, with those that it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """A clock, such as the database's, as one process has seen it."""

    def __init__(
        self, now: Callable[[], datetime], uptime: Callable[[], float] = read_uptime
    ) -> None:
        self._now = now
        self._uptime = uptime
        self._offset: float | None = None
        self._steady_from = 0.0  # by the uptime

    @property
    def is_new(self) -> bool:
        return self._offset is None

    def is_steady(self) -> bool:
        """Return True if the clock has not jumped since the last call, nor in the hour before."""
        uptime = self._uptime()
        if uptime < self._steady_from:
            return False
        before, self._offset = self._offset, self._now().timestamp() - uptime
        if before is None:
            self._steady_from = uptime + START_SECONDS
        elif abs(self._offset - before) > JUMP_SECONDS:
            self._steady_from = uptime + STEADY_SECONDS
            log.warning("clock_jumped", duration_ms=round((self._offset - before) * 1000))
        return uptime >= self._steady_from
