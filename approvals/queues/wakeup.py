"""A way to wake a waiting thread from another one or from a signal handler."""

import contextlib
import os
import select
from collections.abc import Collection


class Wakeup:
    """A pipe: what is written while nobody waits is not lost, and a signal handler may write at any
    moment, which a lock would not survive.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it is full: whoever waits is awake
            os.write(self._write, b"!")

    def wait(self, seconds: float, *others: int) -> Collection[int]:
        """Wait for a wake-up, or for something to read on the other descriptors; returns those of
        the others.
        """
        ready, _, _ = select.select([self._read, *others], [], [], max(seconds, 0.0))
        if self._read in ready:
            os.read(self._read, 65536)
        return [other for other in ready if other != self._read]

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
