"""The limits for large bodies that this process holds in memory at once."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mailhub.intake.rules import MEGABYTE, busy

LARGE = MEGABYTE  # a smaller body is not counted
HELD = 128 * MEGABYTE
OF_PERSON = HELD // 4  # one largest body, or some that are smaller
_lock = threading.Lock()
_held = Counter[int | None]()  # bytes, by person


@contextmanager
def room_for(person_id: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes how many bytes of a body have arrived; it raises Problem 503 if
    there is no room for them.

    An announced size reserves nothing, because announcing costs the client nothing.
    """
    held = 0

    def note(received: int) -> None:
        nonlocal held
        more = (received if received > LARGE else 0) - held
        with _lock:
            of_person = 0 if person_id is None else _held[person_id] + more
            if more > 0 and (_held.total() + more > HELD or of_person > OF_PERSON):
                raise busy()
            _held[person_id] += more
            held += more

    try:
        yield note
    finally:
        with _lock:
            _held[person_id] -= held
            if not _held[person_id]:
                del _held[person_id]
