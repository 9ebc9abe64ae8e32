"""The rounds of the worker in which all heads of the audit chains are anchored, synced and copied.

`approvals.audit.chain` writes and reads the heads. Each round adds those of all chains that have
moved, every ANCHOR_SECONDS, and copies every line to MAILHUB_AUDIT_ANCHORS_COPY.

A full file is followed by a new one with the next number, which begins with the head of each chain.
So the newest file is enough to know the required content of each chain.
"""

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings

from accounts.infra.foreign_text import load_json
from approvals.audit.chain import READER, Head, append, folder, heads_file, heads_files, number_of
from approvals.audit.feed import last_event
from approvals.models import AuditChain, AuditEvent

ANCHOR_SECONDS = 600
COMPLETE_SECONDS = 86_400  # between two rounds that read all chains
READ_AGAIN = 1000  # events
FULL_BYTES = 4_000_000
BYTES_A_CHAIN = 600
PIECE = 1_000_000


def anchor(*, at_most_every: float = 0) -> int:
    """Append the heads of the chains that have moved; return how many.

    With `at_most_every` it does nothing if any process did it less than so many seconds ago, or is
    just doing it. Then it reads only the chains with new events, and all chains once a day.
    """
    stamp = folder() / "audit-heads.stamp"
    if at_most_every and not _is_due(stamp, at_most_every):
        return 0
    stamp.parent.mkdir(parents=True, exist_ok=True)
    with stamp.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if at_most_every else 0))
        except BlockingIOError:
            return 0
        if at_most_every and not _is_due(stamp, at_most_every):
            return 0
        known = READER.newest()
        last = _Round.read(stamp) if at_most_every else None
        newest, now = last_event(), time.time()
        if last is None or not last.can_continue(newest, len(known), now):
            last = None
        heads = _read_heads_of_chains(last.newest if last else None)
        moved = [head for head in heads if known.get(head.chain) != head]
        append(*moved)
        known |= {head.chain: head for head in moved}
        _begin_another_if_full(known)
        complete_at = last.complete_at if last else now
        this = _Round(newest=newest, chains=len(known), complete_at=complete_at)
        lock.truncate(0)
        lock.write(json.dumps(asdict(this)))
    sync()
    return len(moved)


@dataclass(frozen=True, kw_only=True)
class _Round:
    """The newest event of the last round, chains with a later head, and when all were read."""

    newest: int
    chains: int
    complete_at: float

    @classmethod
    def read(cls, stamp: Path) -> "_Round | None":
        try:
            return cls(**load_json(stamp.read_text()))
        except (ValueError, TypeError):  # none yet, or from an earlier version
            return None

    def can_continue(self, newest: int, known: int, now: float) -> bool:
        """Return True if the chains that have moved since then are enough.

        They are not if the file or the database was replaced meanwhile.
        """
        is_recent = 0 <= now - self.complete_at < COMPLETE_SECONDS
        return is_recent and self.newest <= newest and self.chains <= known


def _read_heads_of_chains(event: int | None) -> Iterator[Head]:
    """Yield the present heads of the chains with events after this one; None: of all chains."""
    chains = AuditChain.objects.filter(length__gt=0)
    if event is not None:  # an event may be committed after a later one
        later = AuditEvent.objects.filter(pk__gt=event - READ_AGAIN)
        chains = chains.filter(pk__in=later.values("chain"))
    for chain, length, last in chains.values_list("pk", "length", "head").iterator():
        yield Head(chain=chain, length=length, hash=last)


def sync() -> None:
    """Sync the appended lines to disk, and copy them to MAILHUB_AUDIT_ANCHORS_COPY."""
    files = heads_files(folder())
    # Nobody appends to the older files any more, so they are looked at once.
    for path in files[-2:] if _synced.keys() >= set(files[:-2]) else files:
        size = path.stat().st_size
        if _synced.get(path) == size:
            continue
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            if settings.MAILHUB_AUDIT_ANCHORS_COPY:
                _copy(file, Path(settings.MAILHUB_AUDIT_ANCHORS_COPY) / path.name)
        _synced[path] = size


_synced: dict[Path, int] = {}


def begin_another() -> None:
    """Begin a new file with the present heads, after an operator has accepted an older database."""
    _begin_another(_read_heads_of_chains(None))
    sync()


def _begin_another_if_full(heads: dict[UUID, Head]) -> None:
    path = heads_file()
    if path.exists() and path.stat().st_size >= FULL_BYTES + BYTES_A_CHAIN * len(heads):
        _begin_another(heads.values())


def _begin_another(heads: Iterable[Head]) -> None:
    """Create the next file, complete with the head of each chain.

    A process that just now appends to the old file loses nothing: the old file is read too. If two
    processes create it, the later one replaces it; the next round adds what that file lacks.
    """
    path = heads_file()
    following = path.with_name(f"audit-heads-{number_of(path) + 1:06}.jsonl")
    unfinished = following.with_suffix(f".{os.getpid()}-{threading.get_ident()}.unfinished")
    unfinished.unlink(missing_ok=True)
    append(*heads, to=unfinished)
    unfinished.rename(following)


def _copy(source: BinaryIO, target: Path) -> None:
    """Append the missing lines to the copy, one process at a time, and change no other line."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("ab") as copy:
        try:
            fcntl.flock(copy, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        source.seek(os.fstat(copy.fileno()).st_size)
        while piece := source.read(PIECE):
            copy.write(piece)
        copy.flush()
        os.fsync(copy.fileno())


def _is_due(stamp: Path, seconds: float) -> bool:
    try:
        found = stamp.stat()
    except FileNotFoundError:
        return True
    # A stamp of the future is from a clock that was ahead.
    return found.st_size == 0 or not 0 <= time.time() - found.st_mtime < seconds
