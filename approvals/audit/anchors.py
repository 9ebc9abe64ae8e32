"""Heads of the audit chains, outside the database: audit-heads*.jsonl, signed lines.

They lie beside the send journal, in the folder that all machines share: a worker learns there what
a web server on another machine has taken back.

Each approval, and each event that takes one back or pauses, appends its head after its COMMIT: a
head that was anchored before a rollback would be a false alarm. The line is one write(2) to a file
in append mode, without a lock and without fsync, so it costs an approval microseconds. From that
moment nobody can change it by rewriting the database. A power cut can lose the lines of the last
sweep; the chain is longer then, so the next round writes its head again. The sweeper syncs the
file, adds the heads of all other chains every ANCHOR_SECONDS, and copies every line to
MAILHUB_AUDIT_ANCHORS_COPY.

A full file is followed by a new one with the next number, which begins with the head of each chain.
So the newest file is enough to know the required content of each chain, and a reader remembers its
position in it.
"""

import errno
import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.infra.foreign_text import load_json
from approvals.audit.chain import keyed_hash
from approvals.audit.feed import last_event
from approvals.models import AuditChain, AuditEvent
from approvals.models.audit import NO_MAILBOX

ANCHOR_SECONDS = 600
COMPLETE_SECONDS = 86_400  # between two rounds that read all chains
READ_AGAIN = 1000  # events
FULL_BYTES = 4_000_000
BYTES_A_CHAIN = 600
PIECE = 1_000_000
LOCK_SECONDS, POLL_SECONDS = 1.0, 0.002
NAME = re.compile(r"audit-heads(?:-(\d{6}))?\.jsonl")


@dataclass(frozen=True, kw_only=True)
class Head:
    """The length of a chain at some time, and the hash of its last event then."""

    chain: UUID
    length: int
    hash: str

    def line(self, at: str) -> str:
        said = {"at": at, "chain": str(self.chain), "length": self.length, "head": self.hash}
        return json.dumps({**said, "seal": keyed_hash(json.dumps(said, sort_keys=True))})


def folder() -> Path:
    """Return the folder of the send journal, which all machines share."""
    journal = settings.MAILHUB_SEND_JOURNAL
    return Path(journal).parent if journal else Path(settings.MAILHUB_HOME)


def heads_file() -> Path:
    """Return the newest file of heads, to which new heads are written."""
    return max(_files(folder()), key=_number, default=folder() / "audit-heads.jsonl")


def append_after_commit(link: AuditEvent) -> None:
    """Append the head that this event made, if its transaction commits.

    For events without which more could leave: an older database shows at the next claim.
    """
    head = Head(chain=link.chain_id, length=link.sequence, hash=link.hash)
    # Robust: a full disk does not stop decisions.
    transaction.on_commit(lambda: append(head), robust=True)


def fits(chain: UUID, length: int, head: str) -> bool:
    """Return False if this end of a chain is older than a head, or if the chain grew from another
    event than the head's.

    An older copy of the database soon has as many events as the newer one had. So each head is
    looked up among the events; those that were found once are followed by the newest of them.
    """
    heads = READER.heads(chain)
    if not heads:
        return True
    newest = max(heads)
    if newest > length or heads.get(length, head) != head:
        return False
    earlier = {number: said for number, said in heads.items() if number < length}
    if not _are_events(chain, earlier):
        return False
    READER.forget_before(chain, newest)
    return True


def _are_events(chain: UUID, heads: Mapping[int, str]) -> bool:
    if not heads:
        return True
    rows = AuditEvent.objects.filter(chain=chain, sequence__in=heads)
    found = dict(rows.values_list("sequence", "hash"))
    return found == heads


def append(*heads: Head) -> None:
    """Write heads to the end of the newest file."""
    _write(heads_file(), _lines(heads))


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
    """The newest event at the last round, the chains with a head in the newest file after it, and
    when a round last read all chains.
    """

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
    files = _files(folder())
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


def read_heads(only: Collection[UUID] | None = None) -> Iterator[tuple[Head, bool]]:
    """Yield every head in the files and their copies, with True if its signature is ours.

    With `only`, heads of other chains are left out. Earlier versions wrote them into the home.
    """
    home, copy = str(settings.MAILHUB_HOME), settings.MAILHUB_AUDIT_ANCHORS_COPY
    folders = {home, str(folder()), copy} - {""}
    seen: set[str] = set()
    for path in sorted(path for each in folders for path in _files(Path(each))):
        for line in path.read_text(errors="replace").splitlines():
            if line in seen:  # the copy has the same lines
                continue
            seen.add(line)
            head, genuine = _head_of(line, only)
            if head is not None:
                yield head, genuine


class Reader:
    """Reader of the newest file of heads; it goes on from its last position."""

    def __init__(self) -> None:
        self._read = _Read()
        self._lock = threading.Lock()  # a worker's threads share it

    def newest(self) -> dict[UUID, Head]:
        """Return the longest head with our signature of each chain in the newest file."""
        with self._lock:
            self._read_on()
            return {
                chain: Head(chain=chain, length=max(heads), hash=heads[max(heads)])
                for chain, heads in self._read.heads.items()
            }

    def heads(self, chain: UUID) -> dict[int, str]:
        """Return the hashes by length of all such heads of a chain that were not forgotten."""
        with self._lock:
            self._read_on()
            return dict(self._read.heads.get(chain, {}))

    def all(self) -> list[Head]:
        with self._lock:
            self._read_on()
            return [
                Head(chain=chain, length=length, hash=said)
                for chain, heads in self._read.heads.items()
                for length, said in heads.items()
            ]

    def forget_before(self, chain: UUID, length: int) -> None:
        """Forget the heads of a chain before this one, because it follows from them."""
        with self._lock:
            heads = self._read.heads.get(chain, {})
            for each in [each for each in heads if each < length]:
                del heads[each]

    def _read_on(self) -> None:
        path = heads_file()
        try:
            file = path.open("rb")
        except FileNotFoundError:
            self._read = _Read()
            return
        with file:
            # Not its inode: a file that replaces a deleted one may have the same.
            beginning = file.readline()
            size = os.fstat(file.fileno()).st_size
            is_same = (self._read.path, self._read.beginning) == (path, beginning)
            if not is_same or size < self._read.offset:
                self._read = _Read(path=path, beginning=beginning)
            file.seek(self._read.offset)
            whole, _, _ = file.read().rpartition(b"\n")
        self._read.offset += len(whole) + 1 if whole else 0
        for line in whole.decode(errors="replace").splitlines():
            head, genuine = _head_of(line, None)
            if head is None or not genuine:
                continue
            # A second one of the same length is from another database.
            self._read.heads.setdefault(head.chain, {}).setdefault(head.length, head.hash)


@dataclass(kw_only=True)
class _Read:
    path: Path = Path()
    beginning: bytes = b""  # its first line, which has a time and a signature
    offset: int = 0
    heads: dict[UUID, dict[int, str]] = field(default_factory=dict)


READER = Reader()
_synced: dict[Path, int] = {}


def _head_of(line: str, only: Collection[UUID] | None) -> tuple[Head | None, bool]:
    try:
        said = load_json(line)
        head = Head(chain=UUID(said["chain"]), length=int(said["length"]), hash=said["head"])
        # Earlier versions signed a member more in some lines.
        genuine = said.pop("seal") == keyed_hash(json.dumps(said, sort_keys=True))
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # its chain is unknown
        head, genuine = Head(chain=NO_MAILBOX, length=0, hash=""), False
    if only is not None and head.chain not in only:
        return None, False
    return head, genuine


def _files(folder: Path) -> list[Path]:
    try:
        return sorted((path for path in folder.iterdir() if NAME.fullmatch(path.name)), key=_number)
    except FileNotFoundError:
        return []


def _number(path: Path) -> int:
    found = NAME.fullmatch(path.name)
    return int(found[1] or 0) if found else 0


def _write(path: Path, text: str) -> None:
    """Append the lines. Raises OSError if a part of them is missing; the next round writes again."""
    if not text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if settings.MAILHUB_SEND_JOURNAL:  # other machines may share the file
            _lock(file)
        size = os.fstat(file).st_size
        # A full disk may have left half a line, so the next line starts with a line break.
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        lines = (b"\n" if torn else b"") + text.encode()
        if os.write(file, lines) != len(lines):
            raise OSError(errno.ENOSPC, "The file of heads took only a part of a line.")
    finally:
        os.close(file)


def _lock(file: int) -> None:
    """Wait up to LOCK_SECONDS: a process that hangs holds back no decision.

    NFS appends at the end that the machine knows. With the lock, it asks for the end again.
    """
    ends_at = time.monotonic() + LOCK_SECONDS
    while time.monotonic() < ends_at:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(POLL_SECONDS)
        else:
            return


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
    following = path.with_name(f"audit-heads-{_number(path) + 1:06}.jsonl")
    unfinished = following.with_suffix(f".{os.getpid()}-{threading.get_ident()}.unfinished")
    unfinished.unlink(missing_ok=True)
    _write(unfinished, _lines(heads))
    unfinished.rename(following)


def _lines(heads: Iterable[Head]) -> str:
    now = timezone.now().isoformat()
    return "".join(f"{head.line(now)}\n" for head in heads)


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
