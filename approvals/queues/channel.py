"""Notifications of the database queue: NOTIFY on PostgreSQL, a FIFO in MAILHUB_HOME on SQLite.

Either wakes up a waiting worker at once, without a fast poll, and carries the id of the action. If
a notification is lost, the next sweep picks the action up.
"""

import contextlib
import errno
import os
from pathlib import Path
from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.db import connection

CHANNEL = "mailhub_due"
ID_BYTES = 16


class Channel(Protocol):
    """The receiving end of the notifications, in the worker."""

    def fileno(self) -> int | None:
        """Return the descriptor that becomes readable on a notification; None if not connected."""
        ...

    def reconnect(self) -> bool:
        """Try to connect again; return True if notifications arrive now."""
        ...

    def read(self, at_most: int) -> list[UUID]:
        """Read notifications and return their action ids.

        It takes about `at_most` of them if another worker can take the others.
        """
        ...

    def close(self) -> None: ...


class DatabaseQueue:
    """Queue in the database, which is also its server."""

    def notify(self, action_id: UUID) -> None:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(action_id)])
        else:
            _notify_fifo(action_id)

    def answers(self) -> bool:
        return True


def listen() -> Channel:
    if connection.vendor != "postgresql":
        return FifoChannel()
    # Imported only if needed: the library takes a tenth of a second, and SQLite does not use it.
    from approvals.queues.notify import DueChannel

    return DueChannel(CHANNEL)


def fifo_path() -> Path:
    return Path(settings.MAILHUB_HOME) / "bell"


def _notify_fifo(action_id: UUID) -> None:
    try:
        fifo = os.open(fifo_path(), os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):  # nobody listens: the sweep finds it
            return
        raise
    try:
        os.write(fifo, action_id.bytes)
    except BlockingIOError:
        pass  # the pipe is full of notifications, so the worker is awake
    finally:
        os.close(fifo)


class FifoChannel:
    """A FIFO; if several workers listen, one of them takes the notification."""

    def __init__(self) -> None:
        path = fifo_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_fifo():
            path.unlink(missing_ok=True)
            with contextlib.suppress(FileExistsError):  # another worker was faster
                os.mkfifo(path, 0o600)
        # Opened for reading and writing, so it never reaches end of file when the last writer
        # closes it.
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def fileno(self) -> int:
        return self._fifo

    def reconnect(self) -> bool:
        return True

    def read(self, at_most: int) -> list[UUID]:
        # Writes and reads of one fixed size keep the messages whole (pipe(7): such writes are
        # atomic).
        try:
            ids = os.read(self._fifo, ID_BYTES * at_most)
        except BlockingIOError:  # another worker took it
            return []
        return [UUID(bytes=ids[start : start + ID_BYTES]) for start in range(0, len(ids), ID_BYTES)]

    def close(self) -> None:
        os.close(self._fifo)
