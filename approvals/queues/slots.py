"""The concurrency slots of a worker: one owner's slow server must not delay others' mail."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from approvals.worker.dispatch import HEADS, Due

THREADS = 8  # of one worker of the database queue
PROCESSES = 4  # of RQ and Celery, which have one for each send
SLOW_SECONDS = 5.0
MOST = 4  # times as many sends as slots may be under way, most of them slow


class Slots:
    """The slots for `threads` sends at once, at most one of each mailbox.

    A send that takes longer than SLOW_SECONDS only waits for its server, so it gives its slot to
    another one. An owner whose slow sends number half of the slots gets no further slot until one
    of them has ended. So the servers of one owner cannot take up all slots.
    """

    def __init__(self, threads: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.threads = threads
        self._clock = clock
        self._lock = threading.Lock()
        self._taken: dict[UUID, tuple[Due, float]] = {}  # by mailbox, and since when
        self._waiting: dict[UUID, Due] = {}  # by mailbox: found, but without a slot so far

    @property
    def taken(self) -> int:
        return len(self._taken)

    @property
    def some_wait(self) -> bool:
        return bool(self._waiting)

    def free(self) -> int:
        with self._lock:
            return self._free(self._slow_sends())

    def take(self, found: Iterable[Due] = ()) -> list[Due]:
        """Take slots for found and waiting actions as far as possible; return those with a slot."""
        taken = []
        with self._lock:
            for due in found:
                if due.mailbox in self._waiting or len(self._waiting) < HEADS:
                    self._waiting[due.mailbox] = due
            slow = self._slow_sends()
            slow_of = Counter(due.owner for due in slow)
            held = Counter(due.owner for due, _ in self._taken.values())
            for due in _sort_fairly(list(self._waiting.values()), held):
                if self._free(slow) <= 0:
                    break
                under_way = self._taken.get(due.mailbox)
                if under_way is None and slow_of[due.owner] < max(self.threads // 2, 1):
                    self._taken[due.mailbox] = due, self._clock()
                    taken.append(due)
                    del self._waiting[due.mailbox]
                elif under_way is not None and under_way[0].action == due.action:
                    del self._waiting[due.mailbox]  # a second notification
        return taken

    def give_back(self, due: Due) -> None:
        with self._lock:
            del self._taken[due.mailbox]

    def _slow_sends(self) -> list[Due]:
        since = self._clock() - SLOW_SECONDS
        return [due for due, began in self._taken.values() if began < since]

    def _free(self, slow: Sequence[Due]) -> int:
        return min(
            self.threads - (len(self._taken) - len(slow)), self.threads * MOST - len(self._taken)
        )


def _sort_fairly(found: Sequence[Due], held: Counter[int | None]) -> list[Due]:
    """Return the actions sorted: the owner with the fewest sends first, then each in rotation."""
    turn = Counter(held)
    places = []
    for due in found:
        places.append(turn[due.owner])
        turn[due.owner] += 1
    return [due for _, due in sorted(zip(places, found, strict=True), key=lambda each: each[0])]
