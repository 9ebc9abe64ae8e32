"""How many bytes of large bodies this process holds at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mailhub.intake.rules import MEGABYTE, busy

LARGE = MEGABYTE  # a smaller body is not counted
HELD = 128 * MEGABYTE
_lock = threading.Lock()
_held = 0


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Hold room for a body as long as the block lasts; raises Problem 503 if there is none."""
    global _held
    size = size if size > LARGE else 0
    with _lock:
        if size and _held + size > HELD:
            raise busy()
        _held += size
    try:
        yield
    finally:
        with _lock:
            _held -= size
