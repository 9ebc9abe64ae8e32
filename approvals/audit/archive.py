"""The archive of the audit: files of events that the database no longer has.

Each chain has a folder with the name of its id. Each file has events of one month and is named
after the month and its first and last number: `2026-01.000000000001-000000010000.jsonl.gz`. It is
JSON Lines in gzip, one event for each line, with all that its hash covers. A file is never changed.
"""

import contextlib
import fcntl
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from django.conf import settings

from accounts.infra.durable_files import sync_folder
from accounts.infra.foreign_text import load_json
from approvals.audit.chain import Link

NAME = re.compile(r"\d{4}-\d{2}\.(\d{12})-(\d{12})\.jsonl\.gz")


class Unreadable(Exception):
    """Raised if a file of the archive was damaged or cut; the argument is its name."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A file of the archive, with the numbers of its first and last event."""

    path: Path
    first: int
    last: int

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"

    def read(self, chain: UUID) -> Iterator[Link]:
        """Yield the events of the file. Raises Unreadable at the first that cannot be read."""
        try:
            with gzip.open(self.path, "rt", encoding="utf-8") as file:
                for line in file:
                    link = _link_of(line)
                    if link.chain_id != chain:
                        raise Unreadable(self.name)
                    yield link
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, RecursionError):
            raise Unreadable(self.name) from None


def archive_folder() -> Path:
    folder = settings.MAILHUB_AUDIT_ARCHIVE
    return Path(folder or Path(settings.MAILHUB_HOME) / "audit-archive")


def parts_of(chain: UUID) -> list[Part]:
    """Return the files of a chain in the order of their events."""
    try:
        paths = list((archive_folder() / str(chain)).iterdir())
    except FileNotFoundError:
        return []
    found = [
        Part(path=path, first=int(name[1]), last=int(name[2]))
        for path in paths
        if (name := NAME.fullmatch(path.name))
    ]
    return sorted(found, key=lambda part: (part.first, part.last))


def write(links: Sequence[Link]) -> Part:
    """Write the events to a new file; return it when it is on the disk, also after a power cut.

    The file gets its name last, so a process that is killed leaves no part of a file.
    """
    first, last = links[0], links[-1]
    folder = archive_folder() / str(first.chain_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{first.at:%Y-%m}.{first.sequence:012}-{last.sequence:012}.jsonl.gz"
    unfinished = folder / f"{name}.unfinished"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        # No time and no name in the header: the same events are the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            packed.writelines(_line_of(link) for link in links)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(folder / name)
    for each in (folder, folder.parent, folder.parent.parent):
        sync_folder(each)
    return Part(path=folder / name, first=first.sequence, last=last.sequence)


@contextlib.contextmanager
def locked() -> Iterator[bool]:
    """Hold the archive for one process; the value is False if another one has it."""
    folder = archive_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _line_of(link: Link) -> bytes:
    said = {
        "chain": str(link.chain_id),
        "sequence": link.sequence,
        "at": link.at.isoformat(),
        "event": link.event,
        "action_id": str(link.action_id or ""),
        "actor": link.actor,
        "data": link.data,
        "previous": link.previous,
        "hash": link.hash,
    }
    return json.dumps(said, ensure_ascii=False).encode() + b"\n"


def _link_of(line: str) -> Link:
    said = load_json(line)
    return Link(
        chain_id=UUID(said["chain"]),
        sequence=int(said["sequence"]),
        at=datetime.fromisoformat(said["at"]),
        event=said["event"],
        action_id=UUID(said["action_id"]) if said["action_id"] else None,
        actor=said["actor"],
        data=said["data"],
        previous=said["previous"],
        hash=said["hash"],
    )
