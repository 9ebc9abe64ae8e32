"""The three slots for calls to Graph on a mailbox, shared by all processes of this machine.

Graph allows an app four calls at once on a mailbox:
https://learn.microsoft.com/graph/throttling-limits
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from django.conf import settings

from tools.providers.errors import Busy

AT_ONCE = 3  # one of Graph's four is left for other programs
WAIT_SECONDS = 30.0
POLL_SECONDS = 0.02


@contextmanager
def hold_slot(key: object) -> Iterator[None]:
    """Wait for a slot and hold it. Raises Busy if no slot becomes free; no request was made
    then.
    """
    give_up_at = time.monotonic() + WAIT_SECONDS
    here = _process_slots(key)
    if not here.acquire(timeout=WAIT_SECONDS):
        raise _busy_error()
    try:
        held = _lock_file(key, give_up_at)
        try:
            yield
        finally:
            if held is not None:
                os.close(held)  # closing unlocks it, like the end of the process
    finally:
        here.release()


@cache
def _process_slots(key: object) -> threading.BoundedSemaphore:
    """Return the slots of a mailbox in this process: its threads wait here without polling."""
    return threading.BoundedSemaphore(AT_ONCE)


def _lock_file(key: object, give_up_at: float) -> int | None:
    """Return one of the mailbox's locked files, or None if files cannot be locked."""
    try:
        folder = _folder(settings.MAILHUB_HOME)
        while True:
            for number in range(AT_ONCE):
                file = os.open(folder / f"{key}.{number}", os.O_RDWR | os.O_CREAT, 0o600)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    os.close(file)
                    if not isinstance(error, BlockingIOError):
                        raise
                else:
                    return file
            if time.monotonic() > give_up_at:
                raise _busy_error()
            time.sleep(POLL_SECONDS)
    except OSError:  # the home is read-only or has no locks: each process counts for itself
        return None


@cache
def _folder(home: Path) -> Path:
    folder = home / "turns"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _busy_error() -> Busy:
    return Busy("busy", f"{AT_ONCE} calls are under way at this mailbox of Microsoft 365.")
