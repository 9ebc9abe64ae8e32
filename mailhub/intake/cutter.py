"""Timeout for slow clients, in a thread of its own, because a thread that waits in recv cannot stop
itself.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mailhub.intake import pace

LOOK_SECONDS = 0.25


@dataclass(eq=False)
class Watched:
    """A client that sends a body. `cut` is True once it was too slow."""

    client: socket.socket
    began: float = field(default_factory=time.monotonic)
    received: int = 0
    cut: bool = False

    def note(self, received: int) -> None:
        """Store how many bytes have arrived so far."""
        self.received = received

    def is_late(self, now: float) -> bool:
        return now - self.began > pace.seconds_for(self.received)


class Cutter:
    """A watchdog for readers of slow clients: their `recv` returns as at the end of the stream."""

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watch(self, client: socket.socket) -> Iterator[Watched]:
        """Watch a client for the duration of the block."""
        watched = Watched(client)
        with self._changed:
            if self._thread is None or not self._thread.is_alive():  # a fork does not copy it
                self._thread = threading.Thread(target=self._run, name="slow-bodies", daemon=True)
                self._thread.start()
            self._watched.add(watched)
            self._changed.notify()
        try:
            yield watched
        finally:
            with self._changed:
                self._watched.discard(watched)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._watched:
                    self._changed.wait()
                now = time.monotonic()
                for watched in [
                    each for each in self._watched if not each.cut and each.is_late(now)
                ]:
                    watched.cut = True
                    with contextlib.suppress(OSError):  # the client has disconnected
                        watched.client.shutdown(socket.SHUT_RD)
            time.sleep(LOOK_SECONDS)
