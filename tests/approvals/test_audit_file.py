"""The audit as a file: all events, and each change of the file is found without the database."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from accounts.models import Mailbox
from approvals import guards
from approvals.audit import anchors, chain, given_up, proof
from approvals.audit.chain import Head
from approvals.models import AuditChain, AuditEvent, PendingAction
from tests.approvals.audit_pages import own_heads, sent
from tests.support.concurrently import all_at_once

__all__ = ["own_heads", "sent"]
pytestmark = pytest.mark.django_db(transaction=True)
Lines = list[str]


@pytest.fixture(autouse=True)
def _history(sent: PendingAction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add an event of the server to the four of the mailbox, and read them in small batches."""
    chain.record(mailbox=None, event="paused", actor="command")
    monkeypatch.setattr(proof, "BATCH", 2)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """Return an exported file: its first line, one event of the server, four of the mailbox."""
    file = tmp_path / "audit.jsonl"
    call_command("export_audit", str(file), verbosity=0)
    return file


def verified(file: Path) -> str:
    """Return the findings of `verify_audit --file`, or its last words if it found nothing."""
    out = StringIO()
    with suppress(CommandError):
        call_command("verify_audit", file=str(file), stdout=out)
    return out.getvalue()


def test_exported_file_is_whole_also_when_the_chains_go_on(
    exported: Path, mailbox: Mailbox
) -> None:
    events = list(AuditEvent.objects.order_by("chain", "sequence"))
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert [line["hash"] for line in lines[1:]] == [event.hash for event in events]
    assert exported.stat().st_mode & 0o077 == 0
    printed = StringIO()
    call_command("export_audit", "-", stdout=printed)
    assert printed.getvalue() == exported.read_text()
    for private in ("@", "Hello", "Alice"):
        assert private not in printed.getvalue()

    chain.record(mailbox=mailbox, event="paused", actor="command")
    anchors.anchor()

    assert verified(exported) == "5 events in 2 chains are what they were.\n"
    with pytest.raises(CommandError, match="File exists"):
        call_command("export_audit", str(exported))
    with pytest.raises(CommandError, match="No such file"):
        call_command("verify_audit", file="lost.jsonl")


def replaced(number: int, old: str, new: str) -> Callable[[Lines], Lines]:
    def change(lines: Lines) -> Lines:
        changed = lines[number].replace(old, new)
        assert changed != lines[number]
        return [*lines[:number], changed, *lines[number + 1 :]]

    return change


def without(*numbers: int) -> Callable[[Lines], Lines]:
    return lambda lines: [line for at, line in enumerate(lines) if at not in numbers]


def in_order(*numbers: int) -> Callable[[Lines], Lines]:
    return lambda lines: [lines[number] for number in numbers]


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (replaced(3, '"user:', '"user:9'), "event 2 altered: it does not match its hash"),
        (replaced(3, '"sequence": 2', '"sequence": "2"'), "line 4 is not as mailhub writes it"),
        (replaced(3, '"chain": "', '"chain": "9'), "line 4 is not as mailhub writes it"),
        (replaced(3, "\n", "\r\n"), "line 4 is not as mailhub writes it"),
        (replaced(0, '4, "', '3, "'), "mailhub did not write the first line"),
        (without(0), "mailhub did not write the first line"),
        (without(3), "event 2 removed: 1 event is missing"),
        (without(5), "event 4 cut: 1 event is missing at the end"),
        (without(1), "event 1 cut: 1 event is missing at the end"),
        (without(2, 3, 4, 5), "event 1 cut: 4 events are missing at the end"),
        (in_order(0), "event 1 cut: 4 events are missing at the end"),
        (in_order(0, 1, 2, 4, 3, 5), "event 2 altered: it is not in its place"),
        (in_order(0, 1, 2, 3, 3, 4, 5), "event 2 altered: it is not in its place"),
        (in_order(0, 2, 3, 4, 5, 1), "event 1 altered: it is not in its place"),
        (in_order(0, 2, 1, 3, 4, 5), "event 1 altered: it is not in its place"),
        (lambda _: [], "mailhub did not write the first line"),
        (lambda lines: [*lines, "[" * 99_999], "line 7 is not as mailhub writes it"),
    ],
)
def test_each_change_of_the_file_is_found(
    exported: Path, change: Callable[[Lines], Lines], finding: str
) -> None:
    lines = exported.read_text().splitlines(keepends=True)
    exported.write_text("".join(change(lines)), newline="\n")

    assert finding in verified(exported)


def test_file_of_a_chain_rewritten_with_the_key_is_found(mailbox: Mailbox, tmp_path: Path) -> None:
    anchors.anchor()
    with guards.lift_guards(connection):
        previous = "0" * 64
        for link in AuditEvent.objects.filter(chain=mailbox.pk).order_by("sequence"):
            link.actor, link.previous = "user:0", previous
            link.hash = previous = chain.hash_of(link)
            link.save()
        AuditChain.objects.filter(pk=mailbox.pk).update(head=previous)
    call_command("export_audit", str(tmp_path / "audit.jsonl"), verbosity=0)

    assert "event 4 rewritten: two different events" in verified(tmp_path / "audit.jsonl")


def test_events_removed_before_the_export_are_found(mailbox: Mailbox, tmp_path: Path) -> None:
    with guards.lift_guards(connection):
        AuditEvent.objects.filter(chain=mailbox.pk, sequence__gt=2).delete()
    call_command("export_audit", str(tmp_path / "audit.jsonl"), verbosity=0)

    assert "event 3 cut: 2 events are missing at the end" in verified(tmp_path / "audit.jsonl")


@pytest.fixture
def meanwhile(mailbox: Mailbox) -> Iterator[None]:
    """Record another event just before the events of a chain are read."""

    def arrives(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT") and "approvals_auditevent" in sql:
            record = partial(chain.record, mailbox=mailbox, event="paused", actor="command")
            all_at_once([record], seconds=10)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(arrives):
        yield


def test_events_during_the_export_are_not_in_the_file(meanwhile: None, exported: Path) -> None:
    # The first of them arrives before the ends of the chains are known.
    assert verified(exported) == "6 events in 2 chains are what they were.\n"


def test_chain_that_was_cut_before_the_export_is_cut_in_the_file(
    own_heads: object, mailbox: Mailbox, tmp_path: Path
) -> None:
    anchors.anchor()
    *_, before, last = AuditEvent.objects.filter(chain=mailbox.pk).order_by("sequence")
    with guards.lift_guards(connection):
        last.delete()
        AuditChain.objects.filter(pk=mailbox.pk).update(length=before.sequence, head=before.hash)

    call_command("export_audit", str(tmp_path / "cut.jsonl"), verbosity=0)

    assert "missing at the end" in verified(tmp_path / "cut.jsonl")


def test_what_a_restore_gave_up_is_not_missed_in_the_file(
    own_heads: object, mailbox: Mailbox, tmp_path: Path
) -> None:
    end = AuditChain.objects.get(pk=mailbox.pk)
    chain.append(Head(chain=end.pk, length=end.length + 1, hash="f" * 64))  # of the lost database
    lost = given_up.find_lost()
    chain.record(mailbox=None, event="restore_reconciled", actor="command", given_up=lost)
    chain.record(mailbox=mailbox, event="paused", actor="command")

    call_command("export_audit", str(tmp_path / "restored.jsonl"), verbosity=0)

    assert "are what they were" in verified(tmp_path / "restored.jsonl")
