"""Who may call Graph for a mailbox: three at once, in all processes of this machine together.

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

AT_ONCE = 3  # one is left for what else runs there
WAIT_SECONDS = 30.0
POLL_SECONDS = 0.02


@contextmanager
def turn(key: object) -> Iterator[None]:
    """Wait for a turn, and have it. Raises Busy when none comes: nothing has been asked then."""
    give_up_at = time.monotonic() + WAIT_SECONDS
    here = _here(key)
    if not here.acquire(timeout=WAIT_SECONDS):
        raise _busy()
    try:
        held = _held(key, give_up_at)
        try:
            yield
        finally:
            if held is not None:
                os.close(held)  # which unlocks it, as the end of the process does
    finally:
        here.release()


@cache
def _here(key: object) -> threading.BoundedSemaphore:
    """The turns of a mailbox in this process: its threads wait here without polling."""
    return threading.BoundedSemaphore(AT_ONCE)


def _held(key: object, give_up_at: float) -> int | None:
    """One of the mailbox's locked files; None where there can be none."""
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
                raise _busy()
            time.sleep(POLL_SECONDS)
    except (
        OSError
    ):  # a home that cannot be written, or that knows no locks: the process counts alone
        return None


@cache
def _folder(home: Path) -> Path:
    folder = home / "turns"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _busy() -> Busy:
    return Busy("busy", f"{AT_ONCE} calls are under way at this mailbox of Microsoft 365.")
