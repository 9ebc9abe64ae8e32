"""The memory for large content: what has arrived counts, and one person cannot take all of it."""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from accounts.infra.problems import Problem

MEGABYTE = 1024 * 1024
LARGE = MEGABYTE  # smaller content is not counted


def busy() -> Problem:
    """Return the problem of content for which there is no room at the moment."""
    return Problem(
        "transient",
        "The server is busy with other large or slow requests. Send it again.",
        retry_after=2,
    )


class Room:
    """The bytes of large content of one sort that a process holds, in all and for one person."""

    def __init__(self, *, most: int, of_person: int) -> None:
        self._most, self._of_person = most, of_person
        self._lock = threading.RLock()  # the end of a hold may come while objects are collected
        self.held = Counter[Hashable]()  # bytes, by person

    @contextmanager
    def hold(self, person: Hashable) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes how many bytes have arrived; it raises Problem 503 if there is
        no room for them. Without a person only the limit of the process counts.

        An announced size reserves nothing, because announcing costs the client nothing.
        """
        held = 0

        def note(received: int) -> None:
            nonlocal held
            more = (received if received > LARGE else 0) - held
            with self._lock:
                of_person = 0 if person is None else self.held[person] + more
                if more > 0 and (
                    self.held.total() + more > self._most or of_person > self._of_person
                ):
                    raise busy()
                self.held[person] += more
                held += more

        try:
            yield note
        finally:
            with self._lock:
                self.held[person] -= held
                if not self.held[person]:
                    del self.held[person]
