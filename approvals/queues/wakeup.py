"""A way to wake up a waiting thread from another thread or from a signal handler."""

import contextlib
import os
import select
from collections.abc import Collection


class Wakeup:
    """A pipe: a wake-up before the wait is not lost, and a signal handler may write at any moment.

    A lock could deadlock there.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it is full, so the waiting thread is awake
            os.write(self._write, b"!")

    def wait(self, seconds: float, *others: int) -> Collection[int]:
        """Wait for a wake-up or for input; return those of the other descriptors with input."""
        ready, _, _ = select.select([self._read, *others], [], [], max(seconds, 0.0))
        if self._read in ready:
            os.read(self._read, 65536)
        return [other for other in ready if other != self._read]

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
