"""The send journal, and the comparison of the database with the sends from this installation.

If they differ, nothing is sent until an operator allows it.

A restored backup, a rolled-back volume, a promoted asynchronous replica and a copy of production
that is started as staging all hold actions as waiting, approved or unknown that were sent long ago.
Three things outside the database show it:

1. the send journal, one file that grants each handover once. Its newest line is one that an older
   database does not know. It names the generation of the database: each restore begins another one;
2. the anchored heads of the audit chains, which a shorter or other chain does not fit;
3. Sent: an action that was proposed before this process began is looked up there before this
   process attempts it (`approvals.gate.execute`). That works even if the journal was restored
   together with the database.

The first line of the journal is the file's identity: it holds the microsecond at which it was
written, and a random number. Each line names the generation of the database, the action and the
fence of an attempt. A worker locks the file, reads the newest line, commits "handed over from here
on" only if the database knows that line, and appends its own. So the lines have the order of the
commits: a database that knows the newest line knows all of them, and an older copy does not know
the newest.
"""

import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from accounts.infra.database import database_now
from accounts.infra.durable_files import sync_folder
from accounts.infra.foreign_text import load_json
from accounts.infra.texts import translatable
from approvals.audit import anchors, chain, given_up, proof, verified
from approvals.core.states import OPEN, Status
from approvals.models import Attempt, Instance, Pause, PendingAction

log = structlog.get_logger(__name__)

BEGUN = "begun"
REASONS = {
    "instance": translatable(
        "The send journal belongs to another database, or to a newer copy of this one, or it is new."
    ),
    "anchors": translatable(
        "The database is older than the audit heads that were kept outside it, or it is another one."
    ),
    "journal": translatable(
        "The send journal knows mails that the database does not know as sent."
    ),
    "sent": translatable(
        "The Sent folder has a mail that the database lists as approved but never attempted."
    ),
    "operator": translatable("An operator has restored an older copy of the database."),
    BEGUN: translatable("mailhub looks up what may have been sent since the restored copy."),
}
TAIL_BYTES = 16 * 1024
WAIT_SECONDS = 5.0  # for a process that holds the file
POLL_SECONDS = 0.005
# From "it was handed over" in the database to the handover. A process that was frozen in between
# sends nothing.
GRANT_SECONDS = 10.0
_compared: set[UUID] = set()  # the generations that were compared with the anchors
_began: list[datetime] = []  # one value, once it is known


class Leaving(Exception):
    """Raised if an action is being sent now."""


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
def hold_journal() -> Iterator[Journal]:
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


def read_journal() -> Iterator[Entry]:
    """Yield all lines, oldest first."""
    with suppress(FileNotFoundError), journal_file().open("rb") as file:
        for line in file:
            if (entry := _parse(line)) is not None:
                yield entry


def was_granted(action_id: UUID, *, fence: int) -> bool:
    """Return True if the journal has granted this attempt, in this generation of the database."""
    name, generation = str(action_id).encode(), _read_generation()
    with suppress(FileNotFoundError), journal_file().open("rb") as file:
        said = (_parse(line) for line in file if name in line)
        return any(each and (each.generation, each.fence) == (generation, fence) for each in said)
    return False


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


def knows(newest: Entry) -> Q:
    """Return the condition that the database is of this journal and of the generation of its newest
    line, and knows it.
    """
    handed_over = Attempt.objects.filter(
        action=newest.subject, fence=newest.fence, phase=Attempt.Phase.WIRE_STARTED
    )
    assert newest.generation is not None, "a line of an earlier version was given one"
    instance = Instance.objects.filter(identity=newest.generation, journal=newest.journal)
    return Q(Exists(instance)) & (
        Q(Exists(handed_over)) | Q(Exists(Instance.objects.filter(identity=newest.subject)))
    )


def begin_journal() -> None:
    """Begin the journal of a new installation; a worker does it once, before its first handover."""
    newest = read_newest()
    if newest is None or newest.generation is None:
        compare()


def grant(action_id: UUID, *, fence: int, worker: str, order: Mapping[str, Any]) -> bool:
    """Commit that the effect of an attempt may happen from now on, and append the line that grants it.

    Return False if the lease has run out, if the database is an older copy, or if this process was
    held up for too long. Then nothing leaves, whatever was written. Raises OSError.
    """
    begin_journal()
    mine = PendingAction.objects.filter(
        pk=action_id,
        fence=fence,
        status=Status.EXECUTING,
        lease_until__gt=Now(),
        unreconciled=False,
    )
    with hold_journal() as held:
        newest = held.newest
        began = time.clock_gettime(time.CLOCK_BOOTTIME)  # it also counts a suspended machine
        if newest is None or newest.generation is None:
            return False
        if not _mark_started(mine, worker, newest, order):
            return False
        held.append(generation=newest.generation, subject=action_id, fence=fence)
    if not mine.exists():
        return False
    return time.clock_gettime(time.CLOCK_BOOTTIME) <= began + GRANT_SECONDS


def _mark_started(
    mine: QuerySet[PendingAction], worker: str, newest: Entry, order: Mapping[str, Any]
) -> bool:
    """Write into the attempt of a claim whose lease has not run out that the wire starts.

    It is the only attempt of its action without a verdict: a claim ends before the next one begins.
    Return False if an earlier attempt turned out to have been accepted, or if the database is an
    older copy, which does not know the newest line of the send journal.
    """
    accepted = Attempt.objects.filter(action=OuterRef("action"), verdict=Attempt.Verdict.ACCEPTED)
    prepared = Attempt.objects.filter(
        ~Exists(accepted),
        knows(newest),
        action__in=mine.select_for_update(no_key=True).values("pk"),
        worker=worker,
        phase=Attempt.Phase.PREPARED,
        verdict=None,
    )
    with transaction.atomic():
        return (
            prepared.update(
                phase=Attempt.Phase.WIRE_STARTED, wire_started_at=Now(), notes=dict(order)
            )
            > 0
        )


def compare() -> bool:
    """Compare the database with the records outside it, and pause everything on a difference.

    Return True if it differs. The anchors are compared once in each process and its forks, and in
    each generation.
    """
    code = find_difference()
    return code is not None and pause_for(code, again=find_difference)


def compare_everything() -> bool:
    """Compare once more, also the anchors of this home."""
    _compared.clear()
    return compare()


def find_difference() -> str | None:
    """Return the key in REASONS of what differs, or None."""
    if not _began:
        _began.append(database_now())
    newest = read_newest()
    if newest is not None and _is_of_another_journal(newest):
        return "instance"
    if newest is not None and newest.generation and _is_known(newest):
        return _find_difference_to_home(newest.generation)
    generation = _read_generation()
    if generation is None or newest is None:
        is_older = generation is None and newest is not None and PendingAction.objects.exists()
        if is_older or _may_have_sent_elsewhere(generation):
            return "instance"
        generation = _get_or_create_generation()
        _write_line(generation)
    elif newest.generation is not None:
        return "journal" if newest.generation == generation else "instance"
    elif not _is_known(replace(newest, generation=generation)):
        return "journal"
    else:  # a line of an earlier version
        _write_line(generation)
    return _find_difference_to_home(generation)


def _is_of_another_journal(newest: Entry) -> bool:
    """Return True if the database belongs to another journal.

    Two machines that began before the first proposal have the same generation in two journals. A
    database of an earlier version takes the journal of its generation.
    """
    known = Instance.objects.first()
    if known is None or known.journal == newest.journal:
        return False
    if known.journal == "" and newest.generation in (None, known.identity):
        Instance.objects.filter(journal="").update(journal=newest.journal)
        return Instance.objects.exclude(journal=newest.journal).exists()
    return known.journal != ""


def _is_known(newest: Entry) -> bool:
    return Instance.objects.filter(knows(newest)).exists()


def _find_difference_to_home(generation: UUID) -> str | None:
    kept = _read_home()
    if kept not in ("", str(generation)):
        if chain.heads_file().exists():  # they are about the database of before
            anchors.begin_another()
    elif generation not in _compared and proof.compare_with_anchors():
        return "anchors"
    if kept != str(generation):
        _write_home(generation)
    _compared.add(generation)
    return None


def process_start() -> datetime:
    """Return when this process, or its parent, first read the database, by the database's clock."""
    if not _began:
        _began.append(database_now())
    return _began[0]


def pause_for(code: str, *, again: Callable[[], str | None] | None = None) -> bool:
    """Pause everything for one of the REASONS, until `after_restore` ends it; return True.

    With `again`, a new pause needs the difference a second time, else return False: `after_restore`
    repairs the state, so a comparison from before that must not pause again.
    """
    with transaction.atomic():
        if Pause.objects.filter(mailbox=None).exclude(reason="").exists():
            return True
        Pause.objects.get_or_create(mailbox=None, reason=code, defaults={"since": timezone.now()})
        if again is not None and again() is None:
            transaction.set_rollback(True)
            return False
        chain.record(mailbox=None, event="paused", actor="worker", code=code)
        log.error(
            "everything_paused", code=code, reason=REASONS[code], process="manage.py after_restore"
        )
    return True


def reason() -> str:
    """Return why mailhub paused everything, as a sentence; an empty string if it did not."""
    pauses = Pause.objects.filter(mailbox=None).order_by("-reason")
    code = pauses.values_list("reason", flat=True).first() or ""
    return REASONS.get(code, code)


def begin_generation() -> None:
    """Begin another generation of the database: all that is open may have been sent since the copy.

    Raises Leaving if a worker is sending. Everything stays paused. If the process ends between the
    commit and the line, the journal names another generation, so the next call begins one more.
    """
    with transaction.atomic():
        Instance.objects.all().delete()
        generation = _get_or_create_generation()
        PendingAction.objects.filter(status__in=OPEN).update(restored_at=Now(), unreconciled=True)
        # The update has waited for each claim that was not committed yet.
        if PendingAction.objects.filter(status=Status.EXECUTING).exists():
            raise Leaving
        Pause.objects.filter(mailbox=None).exclude(reason="").delete()
        Pause.objects.create(mailbox=None, reason=BEGUN, since=timezone.now())
        chain.record(mailbox=None, event="restore_began", actor="command", instance=str(generation))
    _write_line(generation)


def is_begun() -> bool:
    """Return True if `begin_generation` was called for the present pause."""
    return Pause.objects.filter(mailbox=None, reason=BEGUN).exists()


def end_restore() -> None:
    """End the pause; a person's pause stays. The restored actions have been reconciled before.

    The operator gives up the anchored events that this database lacks: the event names them, and
    `verify_audit` no longer does.
    """
    lost = given_up.find_lost()
    said: dict[str, Any] = {"given_up": lost} if lost else {}
    generation = _read_generation()
    with transaction.atomic():
        Pause.objects.filter(mailbox=None).exclude(reason="").delete()
        chain.record(mailbox=None, event="restore_reconciled", actor="command", **said)
    verified.forget()
    if generation is not None:
        _find_difference_to_home(generation)  # begins a file of anchors for this generation


def _may_have_sent_elsewhere(generation: UUID | None) -> bool:
    """Return True for a database without its journal, unless it is new or has sent nothing here."""
    if Attempt.objects.filter(phase=Attempt.Phase.WIRE_STARTED).exists():
        return True
    if generation is None or _read_home() == str(generation):
        return False
    return PendingAction.objects.exists() or Instance.objects.exclude(journal="").exists()


def _write_line(generation: UUID) -> None:
    """Name the generation in the journal, unless its newest line does, and the journal in it."""
    with hold_journal() as held:
        if held.newest is None or held.newest.generation != generation:
            held.append(generation=generation, subject=generation, fence=0)
    newest = read_newest()
    assert newest is not None, "it has a line now"
    Instance.objects.filter(identity=generation).update(journal=newest.journal)


def _read_generation() -> UUID | None:
    return Instance.objects.values_list("identity", flat=True).first()


def _get_or_create_generation() -> UUID:
    return Instance.objects.get_or_create(pk=1, defaults={"identity": uuid4()})[0].identity


def home_file() -> Path:
    """Return the file that names the generation of the heads beside it."""
    return chain.folder() / "instance-id"


def _read_home() -> str:
    path = home_file()
    return path.read_text().strip() if path.exists() else ""


def _write_home(generation: UUID) -> None:
    path = home_file()
    written = path.with_suffix(f".{threading.get_ident()}.new")
    written.touch(mode=0o600)
    with written.open("w") as file:
        file.write(str(generation))
        file.flush()
        os.fsync(file.fileno())
    written.replace(path)
    sync_folder(path.parent)
