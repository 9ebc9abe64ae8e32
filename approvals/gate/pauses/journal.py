"""The send journal: one file outside the database, which grants each handover once.

Its first line is the file's identity: it holds the microsecond at which it was written, and a random
number. Each line names the generation of the database, the action and the fence of an attempt. A worker
locks the file, reads the newest line, commits "handed over from here on" only if the database knows
that line, and appends its own. So the lines have the order of the commits: a database that knows
the newest line knows all of them, and an older copy does not know the newest.
`approvals.gate.pauses.restored` compares.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.utils import timezone

from accounts.infra.durable_files import sync_folder
from accounts.infra.foreign_text import load_json

TAIL_BYTES = 16 * 1024
WAIT_SECONDS = 5.0  # for a process that holds the file
POLL_SECONDS = 0.005


class JournalBusy(OSError):
    """Raised if another process holds the file for too long."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line: an attempt that was handed over, or the begin of a generation.

    `subject` is the action, or the generation itself, with the fence 0. Lines of earlier versions
    name no generation. `journal` is the identity of the file that has the line.
    """

    generation: UUID | None
    subject: UUID
    fence: int
    at: datetime
    journal: str = ""


class Journal:
    """The file while no other process holds it."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.newest = _newest(file)

    def append(self, *, generation: UUID, subject: UUID, fence: int) -> None:
        """Return when the line is on the disk; raises OSError, and then no part of it is."""
        said: dict[str, Any] = {
            "at": timezone.now().isoformat(),
            "generation": str(generation),
            "action": str(subject),
            "fence": fence,
        }
        size = os.fstat(self._file).st_size
        if size == 0:  # two files that begin in the same moment differ
            said["journal"] = str(uuid4())
        # A power cut may have left half a line, so the next line starts with a line break.
        torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        line = (b"\n" if torn else b"") + json.dumps(said).encode() + b"\n"
        try:
            os.write(self._file, line)
            os.fsync(self._file)
            # The disk may be full, or a file system may have lost the lock.
            if os.pread(self._file, len(line), size) != line:
                raise OSError("The send journal took only a part of a line.")
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, size)
            raise
        if size == 0:
            sync_folder(journal_file().parent)


def journal_file() -> Path:
    return Path(settings.MAILHUB_SEND_JOURNAL or Path(settings.MAILHUB_HOME) / "send-journal.jsonl")


@contextmanager
def hold() -> Iterator[Journal]:
    """Hold the file against other processes; raises JournalBusy after WAIT_SECONDS, and OSError."""
    # NFS appends at the end that the machine knows. With the lock, it asks for the end again.
    file = os.open(journal_file(), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not _lock(file):
            if time.monotonic() > deadline:
                raise JournalBusy("Another process holds the send journal.")
            time.sleep(POLL_SECONDS)
        yield Journal(file)
    finally:
        # A process that is forked now has the file too, and closing it here would not unlock it.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def read_newest() -> Entry | None:
    """Return the newest line, or None for an empty file."""
    try:
        file = os.open(journal_file(), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _newest(file)
    finally:
        os.close(file)


def read_entries() -> Iterator[Entry]:
    """Yield all lines, oldest first."""
    with suppress(FileNotFoundError), journal_file().open("rb") as file:
        for line in file:
            if (entry := _parse(line)) is not None:
                yield entry


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _tail(file: int) -> list[bytes]:
    size = os.fstat(file).st_size
    return os.pread(file, TAIL_BYTES, max(size - TAIL_BYTES, 0)).splitlines()


def _newest(file: int) -> Entry | None:
    """Return the newest line with the identity of the file: the hash of its first line."""
    for line in reversed(_tail(file)):
        entry = _parse(line)
        if entry is not None:
            first, _, _ = os.pread(file, TAIL_BYTES, 0).partition(b"\n")
            return replace(entry, journal=hashlib.sha256(first).hexdigest())
    return None


def _parse(line: bytes) -> Entry | None:
    """Return the line, or None for half a line of a power cut: its mail did not leave."""
    try:
        said: dict[str, Any] = load_json(line)
        at = datetime.fromisoformat(said["at"])
        if "reconciled" in said:  # earlier versions began a generation so
            began = UUID(said["reconciled"])
            return Entry(generation=began, subject=began, fence=0, at=at)
        named = said.get("generation")
        return Entry(
            generation=UUID(named) if named else None,
            subject=UUID(said["action"]),
            fence=int(said["fence"]),
            at=at,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
