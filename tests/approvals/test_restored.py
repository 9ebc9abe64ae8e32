"""State outside the database: an older or foreign one is noticed before anything is sent."""

import fcntl
import os
import resource
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from django.test import Client

from accounts.models import Mailbox
from approvals import guards
from approvals.audit import anchors, chain, proof
from approvals.gate.execute import execute
from approvals.gate.pauses import restored, switch
from approvals.models import Attempt, Instance, Pause, PendingAction, Preparation
from tests.approvals.kinds import Script
from tests.approvals.test_anchors import cut, head_of, say
from tests.conftest import Reviewer
from tests.support.people.browser import sign_in
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Iterator[Path]:
    settings.MAILHUB_HOME = tmp_path
    restored._compared.clear()  # as a new process
    yield tmp_path
    restored._compared.clear()


def lose(subject: UUID, fence: int = 1) -> None:
    """Write the line of a handover that the database does not know: it is an older copy."""
    restored.begin_journal()
    generation = Instance.objects.get().identity
    with restored.hold_journal() as held:
        held.append(generation=generation, subject=subject, fence=fence)


def after_restore(*people: Reviewer, **options: bool) -> str:
    """Run the command, and let these people sign in again, because it signs everybody out."""
    said = StringIO()
    call_command("after_restore", "--yes", "--force", stdout=said, **options)
    for each in people:
        sign_in(each.client, each.user)
    return said.getvalue()


def lines() -> list[tuple[UUID, int]]:
    return [(entry.subject, entry.fence) for entry in restored.read_journal()]


def run(action: PendingAction) -> Attempt:
    """Execute the action, and return its attempt."""
    execute(action.pk, worker="test")
    return action.attempts.get()


def test_home_and_database_that_belong_together_send(
    approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    first = approved()
    work()
    second = approved()
    work()

    generation = Instance.objects.get().identity
    assert len(server.ledger) == 2
    assert lines() == [(generation, 0), (first.pk, 1), (second.pk, 1)]
    assert not restored.compare()


def new_journal(home: Path) -> None:
    restored.journal_file().unlink()


def other_database(home: Path) -> None:
    Instance.objects.update(identity=uuid4())


def newer_generation(home: Path) -> None:
    """Restore the same copy twice: the first restore began a generation that it does not know."""
    kept = Instance.objects.get().identity
    restored.begin_generation()
    restored.end_restore()
    Instance.objects.update(identity=kept)


def no_instance(home: Path) -> None:
    Instance.objects.all().delete()


@pytest.mark.parametrize("change", [new_journal, other_database, newer_generation, no_instance])
def test_other_or_new_journal_lets_nothing_leave(
    approved: Callable[..., PendingAction],
    server: MemoryServer,
    home: Path,
    change: Callable[[Path], None],
) -> None:
    approved()
    work()
    change(home)
    PendingAction.objects.update(unreconciled=False)
    action = approved(subject="Next")

    attempt = run(action)

    assert len(server.ledger) == 1
    assert (attempt.phase, attempt.verdict) == ("prepared", "not_sent")
    assert restored.reason() == restored.REASONS["instance"]
    work()
    assert len(server.ledger) == 1


@pytest.mark.parametrize("is_of_earlier_version", [False, True])
def test_copy_that_has_sent_nothing_yet_sends_nothing_elsewhere(
    approved: Callable[..., PendingAction],
    server: MemoryServer,
    home: Path,
    is_of_earlier_version: bool,
) -> None:
    approved()
    assert not restored.compare()
    restored.journal_file().unlink()
    assert not restored.compare()  # its own home, in which the journal was lost
    for kept in (restored.journal_file(), restored.home_file()):
        kept.unlink()
    if is_of_earlier_version:  # it did not know its journal
        Instance.objects.update(journal="")

    assert restored.compare()
    work()

    assert server.ledger == []


def test_database_older_than_its_audit_heads_sends_nothing(
    approved: Callable[..., PendingAction], server: MemoryServer, mailbox: Mailbox
) -> None:
    restored.begin_journal()
    approved()
    say(mailbox, 2)
    anchors.anchor()
    cut(mailbox, head_of(mailbox).length - 1)

    restored._compared.clear()
    assert restored.compare()
    work()

    assert server.ledger == []
    assert restored.reason() == restored.REASONS["anchors"]
    call_command("after_restore", "--yes", stdout=StringIO())
    assert restored.compare() is False
    assert proof.compare_with_anchors() == []


@pytest.mark.parametrize("unknown", ["another action", "a later attempt"])
def test_send_known_only_to_the_journal_stops_the_next(
    approved: Callable[..., PendingAction], server: MemoryServer, unknown: str
) -> None:
    first = approved()
    work()
    lose(uuid4() if unknown == "another action" else first.pk, 2)

    attempt = run(approved(subject="Next"))

    assert (attempt.phase, attempt.verdict) == ("prepared", "not_sent")
    assert len(server.ledger) == 1
    assert restored.reason() == restored.REASONS["journal"]


def test_journal_line_of_a_mere_claim_grants_nothing(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    """Restore a copy from before the point of no return, under the worker that claims again."""
    restored.begin_journal()
    action = approved()
    script.before = lambda _: lose(action.pk, 1)

    assert run(action).verdict == "not_sent"

    assert server.ledger == []
    assert restored.reason() == restored.REASONS["journal"]


@pytest.mark.parametrize(
    "spoiled", [b'{"at": "2026-', b"no json\n", b'{"at": "yesterday"}\n', b"[]\n"]
)
def test_spoiled_journal_line_hides_no_later_one(home: Path, spoiled: bytes) -> None:
    """Check half a line after a power cut: the next line does not become a part of it."""
    lose(first := uuid4())
    with restored.journal_file().open("ab") as file:
        file.write(spoiled)
    lose(second := uuid4(), 2)

    assert lines()[1:] == [(first, 1), (second, 2)]


def test_full_disk_takes_no_part_of_a_line(approved: Callable[..., PendingAction]) -> None:
    restored.begin_journal()
    before = restored.journal_file().read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    action = approved()
    with restored.hold_journal() as held:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))
        try:
            with pytest.raises(OSError):
                held.append(generation=uuid4(), subject=action.pk, fence=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert restored.journal_file().read_bytes() == before


def test_journal_without_room_lets_nothing_leave(
    approved: Callable[..., PendingAction], server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored.begin_journal()
    action = approved()
    monkeypatch.setattr(os, "write", lambda *_: 0)

    attempt = run(action)

    assert (attempt.verdict, attempt.code) == ("not_sent", "journal_failed")
    assert "journal" in Client().get("/statusz").json()["missing"]
    assert server.ledger == []


def test_frozen_holder_of_the_journal_leaves_no_doubt(
    approved: Callable[..., PendingAction], server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored.begin_journal()
    action = approved()
    monkeypatch.setattr(restored, "WAIT_SECONDS", 0.01)
    with restored.journal_file().open("ab") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        attempt = run(action)

    assert (attempt.phase, attempt.verdict, attempt.code) == (
        "prepared",
        "not_sent",
        "journal_busy",
    )
    assert server.ledger == []


def frozen_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter((0.0, 11.0))
    monkeypatch.setattr(time, "clock_gettime", lambda _: next(readings))


def claimed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """End the lease while the line is written."""

    def sync(file: int) -> None:
        PendingAction.objects.update(lease_until=F("created_at"))

    monkeypatch.setattr(os, "fsync", sync)


@pytest.mark.parametrize("happens", [frozen_for_long, claimed_by_another])
def test_worker_held_up_after_the_commit_sends_nothing(
    approved: Callable[..., PendingAction],
    server: MemoryServer,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[pytest.MonkeyPatch], None],
) -> None:
    restored.begin_journal()
    action = approved()
    happens(monkeypatch)

    attempt = run(action)

    assert (attempt.phase, attempt.verdict) == ("wire_started", "not_sent")
    assert server.ledger == []


def test_shared_journal_needs_no_step_for_one_more_machine(
    approved: Callable[..., PendingAction],
    server: MemoryServer,
    mailbox: Mailbox,
    home: Path,
    settings: Any,
) -> None:
    """Restore a copy that is older than the heads in both homes, on one of two machines."""
    settings.MAILHUB_SEND_JOURNAL = str(home / "shared.jsonl")
    first, second = home / "first", home / "second"
    for each in (first, second):
        each.mkdir()
        settings.MAILHUB_HOME = each
        assert not restored.compare()
        anchors.anchor()
    say(mailbox, 2)
    anchors.anchor()
    cut(mailbox, head_of(mailbox).length - 1)
    settings.MAILHUB_HOME = first
    restored.begin_generation()
    restored.end_restore()

    settings.MAILHUB_HOME = second
    assert not restored.compare()
    approved()
    work()

    assert len(server.ledger) == 1
    restored._compared.clear()
    assert not restored.compare()  # also later


def test_process_that_ends_before_the_line_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restored.begin_journal()
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda *_: 0)
        with pytest.raises(OSError):
            restored.begin_generation()

    assert restored.find_difference() == "instance"
    call_command("after_restore", "--yes", stdout=StringIO())
    assert restored.find_difference() is None


def test_line_of_an_earlier_version_is_compared(
    approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    first = approved()
    work()
    path = restored.journal_file()
    Instance.objects.update(journal="")  # earlier versions did not know it
    path.write_text(f'{{"at": "2026-11-01T10:00:00+00:00", "action": "{first.pk}", "fence": 1}}\n')
    assert not restored.compare()
    approved()
    work()
    assert len(server.ledger) == 2

    Instance.objects.update(journal="")
    path.write_text(f'{{"at": "2026-11-01T10:00:00+00:00", "action": "{first.pk}", "fence": 2}}\n')
    attempt = run(approved(subject="Next"))

    assert attempt.phase == "prepared"
    assert len(server.ledger) == 2
    assert restored.reason() == restored.REASONS["journal"]


def test_copy_from_before_the_first_worker_lets_nothing_leave(
    approved: Callable[..., PendingAction], server: MemoryServer, mailbox: Mailbox
) -> None:
    action = approved(save_to_sent_items=False)
    names = [each.attname for each in PendingAction._meta.concrete_fields if each.name != "id"]
    copy, length = {name: getattr(action, name) for name in names}, head_of(mailbox).length
    work()
    assert len(server.ledger) == 1

    cut(mailbox, length)
    with guards.lift_guards(connection):
        Attempt.objects.all().delete()
        Preparation.objects.all().delete()
        Instance.objects.all().delete()
        PendingAction.objects.filter(pk=action.pk).update(**copy)
    assert restored.compare_everything()
    work()
    assert len(server.ledger) == 1
    assert restored.reason() == restored.REASONS["instance"]


def test_late_written_head_does_not_replace_a_newer_one(mailbox: Mailbox) -> None:
    say(mailbox)
    older = head_of(mailbox)
    say(mailbox)
    chain.append(head_of(mailbox), older)

    assert chain.Reader().newest() == {mailbox.pk: head_of(mailbox)}


def test_outdated_recheck_begins_no_new_pause() -> None:
    assert not restored.pause_for("journal", again=lambda: None)
    assert not Pause.objects.exists()

    assert restored.pause_for("journal", again=lambda: "journal")
    assert restored.pause_for("journal", again=lambda: None)  # the first pause is still in force
    assert Pause.objects.count() == 1


def test_pause_of_a_person_outlasts_the_restore(approved: Callable[..., PendingAction]) -> None:
    switch.pause(mailbox=None, actor="user:1")
    call_command("after_restore", "--force", "--yes", stdout=StringIO())

    assert Pause.objects.get().reason == ""
    assert switch.resume(mailbox=None, actor="user:1")
    assert not Pause.objects.exists()
