"""Every change of recorded events is found, and the verifier names the change."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.db.models import F

from accounts.models import Mailbox
from approvals.audit import anchors, proof
from approvals.audit import chain as audit
from approvals.audit.chain import heads_file
from approvals.models import AuditChain, AuditEvent, PendingAction
from approvals.worker import maintenance
from tests.approvals.audit_pages import by_force
from tests.support.concurrently import all_at_once
from tests.support.work import work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture(autouse=True)
def _history(approved: Callable[..., PendingAction], settings: Any, tmp_path: Path) -> None:
    """Record created, approved, claimed, outcome_accepted in the mailbox's chain, and paused in the
    chain of no mailbox.

    The file of heads belongs to one database, so each test has its own.
    """
    settings.MAILHUB_HOME = tmp_path
    approved()
    work()
    audit.record(mailbox=None, event="paused", actor="command")
    assert AuditEvent.objects.count() == 5
    assert proof.verify() == []
    heads_file().unlink()  # the one of the approval


def found() -> list[tuple[int, str]]:
    return [(finding.sequence, finding.wrong) for finding in proof.verify()]


def event(sequence: int) -> Any:
    return AuditEvent.objects.filter(mailbox__isnull=False, sequence=sequence)


@pytest.mark.fault(60)
@pytest.mark.parametrize(
    "change",
    [
        {"actor": "user:0"},
        {"data": {}},
        {"event": "created"},
        {"hash": "0" * 64},
        {"action_id": None},
    ],
)
def test_altered_event_is_reported(change: dict[str, Any]) -> None:
    by_force(lambda: event(2).update(**change))

    assert (2, "altered") in found()


@pytest.mark.fault(60)
def test_event_removed_in_the_middle_is_reported() -> None:
    by_force(lambda: event(2).delete())

    assert found() == [(2, "removed"), (3, "unapproved")]  # it was the approval


@pytest.mark.fault(60)
def test_removed_event_is_reported_if_later_ones_moved_up() -> None:
    def close_the_gap() -> None:
        event(2).delete()
        for sequence in (3, 4):
            event(sequence).update(sequence=F("sequence") - 1)
        AuditChain.objects.filter(mailbox__isnull=False).update(length=3)

    by_force(close_the_gap)

    assert set(found()) >= {(2, "altered"), (3, "altered")}


@pytest.mark.fault(60)
def test_cut_off_end_is_reported() -> None:
    by_force(lambda: event(4).delete())

    assert found() == [(4, "cut")]


def cut_with_its_head() -> None:
    event(4).delete()
    AuditChain.objects.filter(mailbox__isnull=False).update(length=3, head=event(3).get().hash)


@pytest.mark.fault(60)
def test_end_cut_off_with_its_head_is_reported_by_the_anchor() -> None:
    maintenance.sweep()  # writes anchors
    by_force(cut_with_its_head)

    assert found() == [(4, "cut")]


def written_anew() -> None:
    """Rewrite the chain with the key: every hash is valid, and the history is a different one."""
    previous = "0" * 64
    for link in AuditEvent.objects.filter(mailbox__isnull=False).order_by("sequence"):
        link.actor, link.previous = "user:0", previous
        link.hash = previous = audit.hash_of(link)
        link.save()
    AuditChain.objects.filter(mailbox__isnull=False).update(head=previous)


@pytest.mark.fault(60)
def test_chain_rewritten_with_the_key_fails_its_anchor() -> None:
    anchors.anchor()
    by_force(written_anew)

    assert found() == [(4, "rewritten")]
    heads_file().unlink()
    assert found() == []  # nothing in the database shows it


@pytest.mark.fault(60)
def test_whole_missing_chain_is_reported() -> None:
    anchors.anchor()

    def drop() -> None:
        AuditEvent.objects.all().delete()
        AuditChain.objects.all().delete()

    by_force(drop)

    assert sorted(found()) == [(0, "unclaimed"), (1, "cut"), (1, "cut")]


@pytest.mark.fault(60)
def test_link_that_does_not_follow_the_last_is_reported() -> None:
    def replace() -> None:
        link = event(3).get()
        link.previous = "1" * 64
        link.hash = audit.hash_of(link)
        link.save()

    by_force(replace)

    assert (3, "rewritten") in found()


@pytest.mark.fault(60)
def test_foreign_line_in_the_file_of_heads_is_reported() -> None:
    anchors.anchor()
    lines = [json.loads(line) for line in heads_file().read_text().splitlines()]
    longest = max(lines, key=lambda line: int(line["length"]))
    longest["length"] = 3
    heads_file().write_text("\n".join(json.dumps(line) for line in lines) + "\n")

    assert found() == [(3, "altered")]


def test_unreadable_line_in_the_file_of_heads_is_reported() -> None:
    anchors.anchor()
    with heads_file().open("a") as file:
        file.write('{"half a line\n[]\n')

    assert found() == [(0, "altered"), (0, "altered")]


@pytest.fixture
def meanwhile(mailbox: Mailbox) -> Iterator[None]:
    """Record another event just before the events of a chain are read."""

    def arrives(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT") and "approvals_auditevent" in sql:
            all_at_once(
                [partial(audit.record, mailbox=mailbox, event="paused", actor="command")],
                seconds=10,
            )
        return execute(sql, params, many, context)

    with connection.execute_wrapper(arrives):
        yield


@pytest.mark.parametrize("batch", [2, 2000])
def test_events_during_a_check_are_no_finding(
    meanwhile: None, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(proof, "BATCH", batch)

    assert found() == []


def test_heads_are_anchored_after_a_change_and_not_too_often(mailbox: Mailbox) -> None:
    assert anchors.anchor() == 2
    assert anchors.anchor() == 0
    audit.record(mailbox=mailbox, event="paused", actor="command")
    assert anchors.anchor(at_most_every=3600) == 0
    assert anchors.anchor() == 1
    assert len(heads_file().read_text().splitlines()) == 3
    assert proof.verify() == []


def test_sixteen_anchors_at_once_write_each_head_once() -> None:
    assert sum(all_at_once([anchors.anchor] * 16)) == 2
    assert len(heads_file().read_text().splitlines()) == 2


@pytest.mark.fault(60)
def test_two_writers_cannot_fork_the_chain(mailbox: Mailbox) -> None:
    all_at_once(
        [partial(audit.record, mailbox=mailbox, event="said", actor=f"user:{n}") for n in range(16)]
    )

    chain = AuditChain.objects.get(mailbox=mailbox)
    assert chain.length == AuditEvent.objects.filter(mailbox=mailbox).count() == 20
    assert proof.verify() == []
    last = event(20).get()
    for taken in (
        {"sequence": 20, "previous": "1" * 64},
        {"sequence": 21, "previous": last.previous},
    ):
        fork = AuditEvent(
            chain=chain,
            mailbox=mailbox,
            at=last.at,
            event="forked",
            actor="user:0",
            hash="2" * 64,
            **taken,
        )
        with pytest.raises(IntegrityError), transaction.atomic():
            fork.save()


def test_first_two_writers_make_one_chain(foreign_mailbox: Mailbox) -> None:
    all_at_once(
        [partial(audit.record, mailbox=foreign_mailbox, event="said", actor="x") for _ in range(8)]
    )

    assert AuditChain.objects.get(mailbox=foreign_mailbox).length == 8
    assert proof.verify() == []


def test_command_reports_success_and_anchors_it() -> None:
    out = StringIO()
    call_command("verify_audit", stdout=out)

    assert out.getvalue() == "5 events in 2 chains are what they were.\n"
    assert len(heads_file().read_text().splitlines()) == 2


def test_command_reports_a_problem_and_anchors_nothing(mailbox: Mailbox) -> None:
    by_force(lambda: event(2).update(actor="user:0"))
    out = StringIO()

    with pytest.raises(CommandError, match="1 findings"):
        call_command("verify_audit", stdout=out)

    assert out.getvalue() == f"{mailbox.pk} event 2 altered: it does not match its hash\n"
    assert not heads_file().exists()


def test_chain_holds_no_address_and_no_content(alice: Any) -> None:
    said = json.dumps(list(AuditEvent.objects.values("event", "actor", "data")), default=str)

    for private in ("@", "Hello", "Alice", "mira"):
        assert private not in said
