"""State that is kept outside the database: an older or foreign database is noticed before anything
is sent.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from accounts.models import Mailbox
from approvals.audit import anchors, proof
from approvals.models import Attempt, Instance, Pause, PendingAction
from approvals.pauses import journal, restored
from approvals.worker.execution import execute
from tests.approvals.kinds import Script
from tests.approvals.test_anchors import cut, head_of, say
from tests.support.work import work
from tools.providers.memory import MemoryServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def as_a_new_process() -> None:
    """Forget the comparisons that this process has made."""
    restored._compared.clear()
    restored._forget_verified()


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Iterator[Path]:
    settings.MAILHUB_HOME = tmp_path
    as_a_new_process()
    yield tmp_path
    as_a_new_process()


def test_home_and_database_that_belong_together_send(
    approved: Callable[..., PendingAction], server: MemoryServer, home: Path
) -> None:
    approved()
    work()
    as_a_new_process()
    approved()
    work()

    assert len(server.ledger) == len(journal.newest()) == 2
    assert restored.identity_file().read_text() == str(Instance.objects.get().identity)


@pytest.mark.parametrize("known", ["id of another", "no id"])
def test_database_of_another_home_sends_nothing(
    approved: Callable[..., PendingAction], server: MemoryServer, known: str
) -> None:
    action = approved()
    if known == "id of another":
        Instance.objects.create(pk=1, identity=uuid4())
    restored.identity_file().write_text(str(uuid4()))

    assert not execute(action.pk, worker="test")

    assert server.ledger == []
    assert restored.reason() == restored.REASONS["instance"]


def test_database_older_than_its_audit_heads_sends_nothing(
    approved: Callable[..., PendingAction], server: MemoryServer, mailbox: Mailbox
) -> None:
    action = approved()
    say(mailbox, 2)
    anchors.anchor()
    cut(mailbox, head_of(mailbox).length - 1)

    assert not execute(action.pk, worker="test")

    assert server.ledger == []
    assert restored.reason() == restored.REASONS["anchors"]
    call_command("after_restore", "--yes", stdout=StringIO())
    assert proof.compare_with_anchors() == []


def test_send_known_only_to_the_journal_stops_the_next(
    approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    approved()
    work()
    journal.append(uuid4(), 1)
    action = approved(subject="Next")

    assert not execute(action.pk, worker="test")

    assert len(server.ledger) == 1
    assert restored.reason() == restored.REASONS["journal"]


def test_later_attempt_known_only_to_the_journal_stops_the_next(
    approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    first = approved()
    work()
    journal.append(first.pk, 2)
    action = approved(subject="Next")

    assert not execute(action.pk, worker="test")

    assert len(server.ledger) == 1
    assert restored.reason() == restored.REASONS["journal"]


def test_journal_line_of_a_mere_claim_is_missing(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    """Restore a copy from between the claim and the point of no return; the mail was sent after
    it.
    """
    action = approved()
    seen: list[bool] = []

    def claimed(_: object) -> None:
        journal.append(action.pk, 1)
        seen.append(restored.compare())

    script.before = claimed
    execute(action.pk, worker="test")

    assert seen == [True]
    assert Attempt.objects.count() == 1


@pytest.mark.parametrize(
    "spoiled", [b'{"at": "2026-', b"no json\n", b'{"at": "yesterday"}\n', b"[]\n"]
)
def test_spoiled_journal_line_hides_no_later_one(home: Path, spoiled: bytes) -> None:
    """Check half a line after a power cut: the next line does not become a part of it."""
    first, second = uuid4(), uuid4()
    journal.append(first, 1)
    with journal.journal_file().open("ab") as file:
        file.write(spoiled)
    journal.append(second, 2)

    assert [(entry.action_id, entry.fence) for entry in journal.newest()] == [
        (first, 1),
        (second, 2),
    ]
    assert journal.entries() == journal.newest()


def test_lines_from_before_a_full_journal_are_compared(home: Path) -> None:
    with journal.journal_file().open("wb") as full:
        full.truncate(journal.ROTATE_BYTES + 1)
    journal.append(before := uuid4(), 1)
    journal.append(after := uuid4(), 1)
    assert [entry.action_id for entry in journal.newest()] == [before, after]
    assert before.hex not in journal.journal_file().read_text().replace("-", "")


def test_writers_lose_no_line_when_the_journal_is_full(home: Path) -> None:
    path, meet = journal.journal_file(), threading.Barrier(8, timeout=60)

    def write(fence: int) -> None:
        meet.wait()
        journal.append(uuid4(), fence)

    for _ in range(5):
        with path.open("wb") as full:
            full.truncate(journal.ROTATE_BYTES + 1)
        with ThreadPoolExecutor(meet.parties) as writers:
            list(writers.map(write, range(meet.parties)))
        assert sorted(entry.fence for entry in journal.entries()) == list(range(meet.parties))
        assert path.stat().st_size < journal.ROTATE_BYTES


def test_reconciled_journal_lines_are_not_compared(home: Path) -> None:
    journal.append(uuid4(), 1)
    journal.append_mark(uuid4())
    journal.append(later := uuid4(), 1)

    assert (
        [entry.action_id for entry in journal.newest()]
        == [entry.action_id for entry in journal.entries()]
        == [later]
    )


@pytest.mark.parametrize(
    ("other", "joins"),
    [
        ("stopped meanwhile", True),
        ("stopped for two restores", True),
        ("in use", True),
        ("of another database", False),
        ("new", False),
    ],
)
def test_restore_on_one_machine_is_enough_for_adopted_homes(
    approved: Callable[..., PendingAction],
    server: MemoryServer,
    mailbox: Mailbox,
    home: Path,
    settings: Any,
    other: str,
    joins: bool,
) -> None:
    """Restore a copy that is older than the heads in both homes; they share the send journal."""
    settings.MAILHUB_SEND_JOURNAL = str(home / "shared.jsonl")
    first, second = home / "first", home / "second"
    for each in (first, second):
        each.mkdir()
        settings.MAILHUB_HOME = each
        restored.adopt_home()
        anchors.anchor()
    assert not restored.compare()
    say(mailbox, 2)
    anchors.anchor()
    cut(mailbox, head_of(mailbox).length - 1)
    settings.MAILHUB_HOME = first
    for _ in range(2 if other == "stopped for two restores" else 1):
        restored.pause_for("operator")
        restored.begin_anew()

    settings.MAILHUB_HOME = second
    if other != "in use":
        as_a_new_process()
    match other:
        case "of another database":
            restored.identity_file().write_text(str(uuid4()))
        case "new":
            restored.identity_file().unlink()
    assert restored.compare() is not joins
    approved()
    work()

    assert len(server.ledger) == joins
    assert restored.reason() == ("" if joins else restored.REASONS["instance"])
    new_id = (first / "instance-id").read_text()
    assert (restored._read_identity() == new_id) is joins
    as_a_new_process()
    assert restored.compare() is not joins  # also later


def test_mark_of_an_earlier_restore_joins_no_home(home: Path) -> None:
    """Restore a copy from between two restores, for a machine that was stopped during both."""
    restored.adopt_home()
    kept = restored.identity_file().read_text()
    restored.begin_anew()
    earlier = Instance.objects.get().identity
    restored.begin_anew()
    Instance.objects.update(identity=earlier)
    restored.identity_file().write_text(kept)

    assert restored.compare()

    assert restored.reason() == restored.REASONS["instance"]


def test_mark_joins_no_new_home(home: Path) -> None:
    restored.begin_anew()  # in a home without an id
    restored.identity_file().unlink()

    assert restored.compare()

    assert restored.reason() == restored.REASONS["instance"]


def test_late_written_head_does_not_replace_a_newer_one(mailbox: Mailbox) -> None:
    say(mailbox)
    older = head_of(mailbox)
    say(mailbox)
    anchors.append(head_of(mailbox), older)

    assert anchors.Reader().newest() == {mailbox.pk: head_of(mailbox)}


def test_outdated_recheck_begins_no_new_pause() -> None:
    assert not restored._pause("journal", again=lambda: None)
    assert not Pause.objects.exists()

    assert restored._pause("journal", again=lambda: "journal")
    assert restored._pause("journal", again=lambda: None)  # the first pause is still in force
    assert Pause.objects.count() == 1
