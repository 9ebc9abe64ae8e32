"""Comparison of the database with the sends from this home.

If they differ, nothing is sent until an operator allows it.

A restored backup, a rolled-back volume, a promoted asynchronous replica and a copy of production
that is started as staging all hold actions as approved that were sent long ago. Four things outside
the database show it:

1. the instance id in the home, which a copy elsewhere does not have;
2. the anchored heads of the audit chains, which a shorter or other chain does not fit;
3. the send journal, whose newest lines an older database does not know;
4. Sent: an action that was approved before this process began is looked up there before its first
   attempt (`approvals.lifecycle.reconcile`). That works even if the home was restored together with
   the database.
"""

import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import structlog
from django.conf import settings
from django.db import transaction
from django.db.backends.signals import connection_created
from django.db.models import OuterRef, QuerySet
from django.utils import timezone

from accounts.infra.compiled_sql import Select, database_now
from accounts.infra.durable_files import sync_folder
from accounts.infra.texts import translatable
from approvals.audit import anchors, chain, proof
from approvals.models import Attempt, AuditEvent, Instance, Pause, PendingAction
from approvals.pauses import journal

log = structlog.get_logger(__name__)

REASONS = {
    "instance": translatable(
        "This database belongs to another home of mailhub, or the home is new."
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
}
own_pause = Select(lambda: Pause.objects.filter(mailbox=None).values_list("reason")[:1])
WARNED = "may_have_been_sent"  # the warning about a send that an older copy may have lost
_verified: set[tuple[UUID, int]] = set()
_compared: set[journal.Mark | None] = set()  # the newest mark at each whole comparison
_began: list[datetime] = []  # one value, once it is known
_lock = threading.Lock()


def identity_file() -> Path:
    return Path(settings.MAILHUB_HOME) / "instance-id"


def compare() -> bool:
    """Compare the database with the records outside it, and pause everything on a difference.

    Return True if it differs. The whole comparison is made once in each process and its forks, and
    again after each `after_restore`. The newest lines of the journal are compared each time. Lines
    that this process has seen in the database are not queried again until it has another
    connection, which may lead to another server.
    """
    code = _difference()
    return code is not None and _pause(code, again=_difference)


def _difference() -> str | None:
    mark = journal.newest_mark()
    if mark not in _compared:
        if not _began:
            _began.append(database_now())
        if not _is_same_instance():
            return "instance"
        if proof.compare_with_anchors():
            return "anchors"
        _compared.add(mark)
    with _lock:
        fresh = [
            entry for entry in journal.newest() if (entry.action_id, entry.fence) not in _verified
        ]
    if find_missing(fresh):
        return "journal"
    note(*((entry.action_id, entry.fence) for entry in fresh))
    return None


def is_from_before(at: datetime | None) -> bool:
    """Return True if the time is before this process began.

    The database may have been restored since.
    """
    return at is not None and at <= process_start()


def process_start() -> datetime:
    """Return when this process, or its parent, first read the database, by the database's clock."""
    return _began[0]


def find_missing(entries: list[journal.Entry]) -> list[journal.Entry]:
    """Return the entries whose attempt the database does not know as handed over."""
    missing: list[journal.Entry] = []
    for start in range(0, len(entries), 100):
        part = entries[start : start + 100]
        # Only by the action: for pairs, Django would compile a condition for each one.
        begun = Attempt.objects.filter(
            action__in={entry.action_id for entry in part}, phase=Attempt.Phase.WIRE_STARTED
        )
        known = set(begun.values_list("action_id", "fence"))
        missing += [entry for entry in part if (entry.action_id, entry.fence) not in known]
    return missing


def has_warning(action_id: UUID) -> bool:
    """Return True if a restore left a warning on this action: it may have been sent as it is."""
    return find_warnings(action_id).exists()


def find_warnings(action_id: UUID | OuterRef) -> QuerySet[AuditEvent]:
    """Return the events of such a warning on this action."""
    events = AuditEvent.objects.filter(action_id=action_id, event__in=("noticed", "returned"))
    return events.filter(data__code=WARNED)


def note(*handed_over: tuple[UUID, int]) -> None:
    """Remember attempts that this process has seen in the database as handed over."""
    with _lock:
        _verified.update(handed_over)


def adopt_home() -> None:
    """Let the workers of this home send for this database. Only an operator's command calls it."""
    _write_identity(_identity() or _begin())


def pause_for(code: str) -> None:
    """Pause everything for one of the REASONS, until `after_restore` has reconciled it."""
    _pause(code)


def reason() -> str:
    """Return why mailhub paused everything, as a sentence; an empty string if it did not."""
    return say_reason(own_pause())


def say_reason(found: Sequence[tuple[Any, ...]]) -> str:
    """Return the same for the rows of `own_pause`."""
    code = found[0][0] if found else ""
    return REASONS.get(code, code)


def begin_anew() -> None:
    """Give database and home a new common id, and end the pause last.

    The restored actions have been reconciled before. A machine with another home takes the id from
    the mark in a shared journal. The mark comes first: after a crash, this home takes it too.
    """
    before = _read_identity()
    with transaction.atomic():
        Instance.objects.all().delete()
        identity = _begin()
        chain.record(
            mailbox=None, event="restore_reconciled", actor="command", instance=str(identity)
        )
    journal.append_mark(identity, before=before)
    anchors.begin_another()
    _write_identity(identity)
    Pause.objects.filter(mailbox=None).exclude(reason="").delete()


def _is_same_instance() -> bool:
    """Return True if home and database belong together.

    New ones, without any action, are joined here. So is a home after `after_restore` on another
    machine.
    """
    kept = _read_identity()
    identity = _identity()
    if identity is not None:
        return kept == str(identity) or _joins_after_restore(kept, identity)
    if kept and PendingAction.objects.exists():
        return False
    _write_identity(_begin())
    return True


def _joins_after_restore(kept: str, identity: UUID) -> bool:
    """Join this home to the id that a restore gave the database, and return True.

    Return False unless the newest mark of the journal names this id, and the kept one is that from
    before it, or from before earlier marks. The heads of the audit in this home are about the lost
    database, so others begin.
    """
    marks = journal.marks()
    if not kept or not marks or marks[-1].identity != str(identity):
        return False
    earlier = {str(identity)}
    for mark in reversed(marks):
        if mark.identity in earlier:
            earlier.add(mark.before)
    if kept not in earlier:
        return False
    anchors.begin_another()
    _write_identity(identity)  # last: after a crash, the next process does both again
    return True


def _read_identity() -> str:
    """Return the id in this home; an empty string if it has none."""
    path = identity_file()
    return path.read_text().strip() if path.exists() else ""


def _identity() -> UUID | None:
    return Instance.objects.values_list("identity", flat=True).first()


def _begin() -> UUID:
    """Return the id of the database, created if it is missing; another process may be faster."""
    return Instance.objects.get_or_create(pk=1, defaults={"identity": uuid4()})[0].identity


def _write_identity(identity: UUID) -> None:
    path = identity_file()
    written = path.with_suffix(f".{threading.get_ident()}.new")
    written.touch(mode=0o600)
    with written.open("w") as file:
        file.write(str(identity))
        file.flush()
        os.fsync(file.fileno())  # a power cut must not separate the home from its database
    written.replace(path)
    sync_folder(path.parent)


def _pause(code: str, *, again: Callable[[], str | None] | None = None) -> bool:
    """Pause everything; return True if it is paused.

    With `again`, a new pause needs the difference a second time: `after_restore` repairs the state
    and then ends the pause, so a comparison from before that must not pause again.
    """
    with transaction.atomic():
        pause, new = Pause.objects.get_or_create(
            mailbox=None, defaults={"since": timezone.now(), "reason": code}
        )
        if new and again is not None and again() is None:
            transaction.set_rollback(True)
            return False
        if not new and not pause.reason:
            Pause.objects.filter(pk=pause.pk).update(reason=code)
        if new or not pause.reason:
            chain.record(mailbox=None, event="paused", actor="worker", code=code)
            log.error(
                "everything_paused",
                code=code,
                reason=REASONS[code],
                process="manage.py after_restore",
            )
    return True


def _forget_verified(**_: object) -> None:
    with _lock:
        _verified.clear()


connection_created.connect(_forget_verified)
