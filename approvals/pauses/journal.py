"""The send journal: a file outside the database with a line for each handover.

The line is written and synced just before the point of no return, so the file is never behind a
send. A database that was restored, rolled back or replaced by an older replica has lost sends that
are in this file. Only `approvals.pauses.restored` reads it.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from accounts.infra.durable_files import sync_folder

TAIL_BYTES = 16 * 1024  # holds some 100 lines: more than are handed over at the same moment
ROTATE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One action that was about to be handed over, with the fence of the attempt."""

    at: datetime
    action_id: UUID
    fence: int


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A line that says that all lines before it were reconciled.

    The database has this instance id since then. Its homes had the other one before.
    """

    identity: str
    before: str


def journal_file() -> Path:
    return Path(settings.MAILHUB_SEND_JOURNAL or Path(settings.MAILHUB_HOME) / "send-journal.jsonl")


def append(action_id: UUID, fence: int) -> None:
    """Write that the attempt is about to be handed over.

    Returns when the line is on the disk; raises OSError.
    """
    _write({"at": timezone.now().isoformat(), "action": str(action_id), "fence": fence})


def append_mark(identity: UUID, *, before: str = "") -> None:
    """Write that everything before this line was reconciled with the database.

    `before` is the instance id of its homes until then.
    """
    at = timezone.now().isoformat()
    _write({"at": at, "reconciled": str(identity), "before": before})


def newest() -> list[Entry]:
    """Return the entries of the last lines that were not reconciled, oldest first."""
    return _take_after_mark(_parse(_last_lines()))


def entries() -> list[Entry]:
    """Return all entries that were not reconciled, oldest first."""
    return _take_after_mark(_parse(_all_lines()))


def newest_mark() -> Mark | None:
    """Return the newest mark of the last lines, or None."""
    return next(_marks(reversed(_last_lines())), None)


def marks() -> list[Mark]:
    """Return all marks, oldest first."""
    return list(_marks(_all_lines()))


def _last_lines() -> list[bytes]:
    """Return the last lines, also those from just before the file was begun."""
    path = journal_file()
    tail = _tail(path)
    if len(tail) < TAIL_BYTES:
        tail = _tail(_older_path(path)) + b"\n" + tail
    return tail.splitlines()


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
            return file.read()
    except FileNotFoundError:
        return b""


def _all_lines() -> list[bytes]:
    path = journal_file()
    return [
        line
        for each in (_older_path(path), path)
        if each.exists()
        for line in each.read_bytes().splitlines()
    ]


def _marks(lines: Iterable[bytes]) -> Iterator[Mark]:
    for line in lines:
        if b'"reconciled"' in line:  # few lines are, and a journal is long
            with contextlib.suppress(ValueError, KeyError, TypeError):
                said = json.loads(line)
                yield Mark(identity=said["reconciled"], before=said.get("before", ""))


def _write(said: dict[str, Any]) -> None:
    path = journal_file()
    line = json.dumps(said).encode() + b"\n"
    with _opened_alone(path) as file:
        size = os.fstat(file).st_size
        # A power cut may have left half a line, so the next line starts with a line break.
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        os.write(file, (b"\n" if torn else b"") + line)
        os.fsync(file)
        if size > ROTATE_BYTES:
            # One older file is kept, so the journal does not grow without bound.
            path.replace(_older_path(path))
        if size == 0 or size > ROTATE_BYTES:
            sync_folder(path.parent)


@contextlib.contextmanager
def _opened_alone(path: Path) -> Iterator[int]:
    """Open the journal while no other process or machine writes it or moves it away.

    NFS appends at the end that the machine knows. With the lock, it asks for the end again.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(path, file):
                yield file
                return
        finally:
            # A process that is forked now has the file too, and closing it here would not unlock it.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


def _is_at(path: Path, file: int) -> bool:
    """Return False if another process has moved the file away."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _older_path(path: Path) -> Path:
    return path.with_suffix(".older.jsonl")


def _parse(lines: list[bytes]) -> Iterator[Entry | None]:
    """Yield the entries, and None for a mark.

    A torn line is skipped, because its mail did not leave.
    """
    for line in lines:
        try:
            said = json.loads(line)
            if "reconciled" in said:
                yield None
            else:
                at = datetime.fromisoformat(said["at"])
                yield Entry(at=at, action_id=UUID(said["action"]), fence=int(said["fence"]))
        except (ValueError, KeyError, TypeError):
            continue


def _take_after_mark(found: Iterator[Entry | None]) -> list[Entry]:
    kept: list[Entry] = []
    for each in found:
        if each is None:
            kept.clear()
        else:
            kept.append(each)
    return kept
