"""The audit chains: their events, and their heads outside the database.

An event is written in the same transaction as the recorded change. The heads are signed lines in
audit-heads*.jsonl. They lie beside the send journal, in the folder that all machines share: a
worker learns there what a web server on another machine has taken back.

Each approval, and each event that takes one back or pauses, appends its head after its COMMIT: a
head that was anchored before a rollback would be a false alarm. The line is one write(2) to a file
in append mode, without a lock and without fsync, so it costs an approval microseconds. From that
moment nobody can change it by rewriting the database. A power cut can lose the lines of the last
sweep; the chain is longer then, so the next round writes its head again (`approvals.audit.anchors`).
"""

import errno
import fcntl
import hashlib
import hmac
import json
import os
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.infra.foreign_text import load_json
from accounts.models import Mailbox
from approvals.models import AuditChain, AuditEvent
from approvals.models.audit import NO_MAILBOX, PEOPLE

LOCK_SECONDS, POLL_SECONDS = 1.0, 0.002
NAME = re.compile(r"audit-heads(?:-(\d{6}))?\.jsonl")


def record_from_accounts(
    sender: object,
    *,
    mailbox: Mailbox | None,
    of_people: bool,
    name: str,
    actor: str,
    data: dict[str, Any],
    **_: object,
) -> None:
    """Receive `accounts.audit_hook.audit_event`. An error also rolls the change back."""
    record(mailbox=mailbox, event=name, actor=actor, of_people=of_people, **data)


def hold_from_accounts(sender: object, *, mailboxes: Iterable[UUID], **_: object) -> None:
    """Receive `accounts.audit_hook.audit_held`."""
    for mailbox in mailboxes:
        _lock_end(mailbox, mailbox)


def record(
    *,
    mailbox: Mailbox | UUID | None,
    event: str,
    actor: str,
    action_id: UUID | None = None,
    of_people: bool = False,
    anchored: bool = False,
    **data: Any,
) -> AuditEvent:
    """Append one event to the chain of the mailbox, and return it.

    With `anchored`, its head is written too if the transaction commits. That is for events without
    which more could leave: an older database shows at the next claim.

    Without a mailbox it goes to the chain of people or of the server. `actor` is `user:<id>`,
    `token:<id>`, `worker` or `command`; `data` holds ids, codes, counts and hashes.
    """
    mailbox_id = mailbox.id if isinstance(mailbox, Mailbox) else mailbox
    chain_id = mailbox_id or (PEOPLE if of_people else NO_MAILBOX)
    with transaction.atomic(savepoint=False):  # the event and the change are committed together
        end = _lock_end(chain_id, mailbox_id)
        link = AuditEvent(
            chain_id=chain_id,
            mailbox_id=mailbox_id,
            sequence=end.length + 1,
            at=timezone.now(),
            event=event,
            action_id=action_id,
            actor=actor,
            data=data,
            previous=end.head,
        )
        link.hash = hash_of(link)
        link.save(force_insert=True)
        AuditChain.objects.filter(pk=chain_id).update(length=link.sequence, head=link.hash)
    if anchored:
        head = Head(chain=chain_id, length=link.sequence, hash=link.hash)
        # Robust: a full disk does not stop decisions.
        transaction.on_commit(lambda: append(head), robust=True)
    return link


def lock_end(chain_id: UUID) -> AuditChain | None:
    """Return the chain with its row locked, so that it cannot fork; None if nothing is recorded yet.

    On SQLite the transaction has the write lock already.
    """
    return AuditChain.objects.select_for_update(no_key=True).filter(pk=chain_id).first()


def _lock_end(chain_id: UUID, mailbox_id: UUID | None) -> AuditChain:
    """Return the same; a new chain is begun. Another transaction may begin it too."""
    end = lock_end(chain_id)
    if end is None:
        first = AuditChain(pk=chain_id, mailbox_id=mailbox_id)
        AuditChain.objects.bulk_create([first], ignore_conflicts=True)
        end = lock_end(chain_id)
        assert end is not None
    return end


class Link(NamedTuple):
    """One event as a verifier reads it: a tuple costs a tenth of a model."""

    chain_id: UUID
    sequence: int
    at: datetime
    event: str
    action_id: UUID | None
    actor: str
    data: Any
    previous: str
    hash: str


def hash_of(link: AuditEvent | Link) -> str:
    """Return the keyed hash of a link; without the key nobody can make a rewritten chain fit."""
    said = [
        str(link.chain_id),
        link.sequence,
        link.at.isoformat(),
        link.event,
        str(link.action_id or ""),
        link.actor,
        link.data,
        link.previous,
    ]
    return keyed_hash(_encode(said))


def keyed_hash(text: str) -> str:
    """Return the keyed hash of a text, as 64 hex digits."""
    return hmac.digest(_key(settings.SECRET_KEY), text.encode(), "sha256").hex()


@lru_cache(maxsize=4)
def _key(secret: str) -> bytes:
    return hashlib.sha256(b"mailhub audit chain" + secret.encode()).digest()


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


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
    return next(reversed(heads_files(folder())), folder() / "audit-heads.jsonl")


def lock_current(mailbox_id: UUID) -> bool:
    """Lock the chain of a mailbox; return False if it or the one of the server is older than its
    anchored heads.
    """
    ends = (lock_end(mailbox_id), AuditChain.objects.filter(pk=NO_MAILBOX).first())
    return all(_fits(end) for end in ends if end)


def _fits(end: AuditChain) -> bool:
    """Return False if this chain is older than a head, or if it grew from another event than the
    head's.

    An older copy of the database soon has as many events as the newer one had. So each head is
    looked up among the events; those that were found once are followed by the newest of them.
    """
    heads = READER.heads(end.pk)
    if not heads:
        return True
    newest = max(heads)
    if newest > end.length or heads.get(end.length, end.head) != end.head:
        return False
    earlier = {length: said for length, said in heads.items() if length < end.length}
    if earlier:
        events = AuditEvent.objects.filter(chain=end, sequence__in=earlier)
        if dict(events.values_list("sequence", "hash")) != earlier:
            return False
    READER.forget_before(end.pk, newest)
    return True


def append(*heads: Head, to: Path | None = None) -> None:
    """Write heads to the end of the newest file, or of another one.

    Raises OSError if a part of them is missing; the next round writes again.
    """
    if not heads:
        return
    path, now = to or heads_file(), timezone.now().isoformat()
    text = "".join(f"{head.line(now)}\n" for head in heads)
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


def read_heads(only: Collection[UUID] | None = None) -> Iterator[tuple[Head, bool]]:
    """Yield every head in the files and their copies, with True if its signature is ours.

    With `only`, heads of other chains are left out. Earlier versions wrote them into the home.
    """
    home, copy = str(settings.MAILHUB_HOME), settings.MAILHUB_AUDIT_ANCHORS_COPY
    folders = {home, str(folder()), copy} - {""}
    seen: set[str] = set()
    for path in sorted(path for each in folders for path in heads_files(Path(each))):
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


def heads_files(folder: Path) -> list[Path]:
    try:
        return sorted(
            (path for path in folder.iterdir() if NAME.fullmatch(path.name)), key=number_of
        )
    except FileNotFoundError:
        return []


def number_of(path: Path) -> int:
    found = NAME.fullmatch(path.name)
    return int(found[1] or 0) if found else 0
