"""The limit for large bodies that this process holds in memory at once."""

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
    """Reserve room for a body during the block; raise Problem 503 if there is no room."""
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
