"""The heads of the chains outside the database: they and the keyed chain prove missing events and
forged orders.
"""

import fcntl
import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals import guards
from approvals.audit import anchors, chain, proof
from approvals.audit import chain as audit
from approvals.gate import decide
from approvals.models import Attempt, AuditChain, AuditEvent, Decision, PendingAction
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.support.concurrently import all_at_once
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_heads(settings: Any, tmp_path: Path) -> None:
    settings.MAILHUB_HOME = tmp_path / "home"


def wrong() -> list[str]:
    return [finding.wrong for finding in proof.verify()]


def compared() -> list[tuple[int, str]]:
    return [(finding.sequence, finding.wrong) for finding in proof.compare_with_anchors()]


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in chain.heads_file().read_text().splitlines()]


def cut(mailbox: Mailbox, length: int) -> None:
    cut_chain(mailbox.pk, length)


def cut_chain(chain: UUID, length: int) -> None:
    """Delete the end of a chain and reset its head, as an attacker with access to the database."""
    with guards.lift_guards(connection):
        AuditEvent.objects.filter(chain=chain, sequence__gt=length).delete()
        last = AuditEvent.objects.get(chain=chain, sequence=length)
        AuditChain.objects.filter(pk=chain).update(length=length, head=last.hash)


def say(mailbox: Mailbox, times: int = 1) -> None:
    for _ in range(times):
        audit.record(mailbox=mailbox, event="paused", actor="command")


def test_approval_is_anchored_when_it_is_given(
    api: Api, reviewer: Reviewer, mailbox: Mailbox
) -> None:
    action_id = api.propose()
    assert not chain.heads_file().exists()
    reviewer.decide(action_id, "approve")

    approval = AuditEvent.objects.get(event="approved")
    (line,) = lines()
    assert (line["chain"], line["length"], line["head"]) == (
        str(mailbox.pk),
        approval.sequence,
        approval.hash,
    )
    assert chain.heads_file().stat().st_mode & 0o077 == 0
    cut(mailbox, 1)
    assert compared() == [(2, "cut")]
    assert "cut" in wrong()


def test_approval_is_given_when_it_cannot_be_anchored(
    api: Api, reviewer: Reviewer, settings: Any, tmp_path: Path
) -> None:
    settings.MAILHUB_HOME = tmp_path / "file"
    settings.MAILHUB_HOME.write_text("no folder")
    action_id = api.propose()
    assert reviewer.decide(action_id, "approve").status_code == 302
    assert PendingAction.objects.get().status == "approved"


def test_anchored_end_that_grew_again_is_reported(
    approved: Callable[..., PendingAction], mailbox: Mailbox
) -> None:
    """Cut off five anchored events and add five harmless ones: the next round anchors the same
    length.
    """
    approved()
    say(mailbox, 5)
    anchors.anchor()
    length = AuditChain.objects.get(pk=mailbox.pk).length
    cut(mailbox, length - 5)
    say(mailbox, 5)
    assert compared() == [(length, "rewritten")]
    anchors.anchor()

    assert AuditChain.objects.get(pk=mailbox.pk).length == length
    found = [(finding.sequence, finding.wrong) for finding in proof.verify()]
    assert (length, "rewritten") in found
    assert len([line for line in lines() if line["length"] == length]) == 2


def test_database_that_was_set_back_is_noticed(
    approved: Callable[..., PendingAction], mailbox: Mailbox
) -> None:
    approved()
    say(mailbox, 3)
    anchors.anchor()
    assert compared() == []
    say(mailbox, 2)
    assert compared() == []  # a chain that grew since then is correct
    cut(mailbox, 3)
    assert compared() == [(4, "cut")]
    say(mailbox, 9)
    assert compared() == [(5, "rewritten")]


def test_file_is_read_on_from_the_last_position(
    mailbox: Mailbox, approved: Callable[..., PendingAction]
) -> None:
    approved()
    say(mailbox)
    anchors.anchor()
    reader = chain.Reader()
    before = reader.newest()
    path = chain.heads_file()
    first, rest = path.read_text().split("\n", 1)
    assert rest
    # lines that were read are not read again
    path.write_text(f"{first}\n{'x' * (len(rest) - 1)}\n")
    say(mailbox)
    chain.append(newest := head_of(mailbox))
    with path.open("a") as file:
        file.write('{"half a line')
    assert reader.newest() == {**before, mailbox.pk: newest}
    assert reader.newest() == {**before, mailbox.pk: newest}
    assert chain.Reader().newest() == {mailbox.pk: newest}
    path.unlink()
    assert reader.newest() == {}


def test_replaced_file_is_read_from_its_beginning(
    mailbox: Mailbox, approved: Callable[..., PendingAction]
) -> None:
    approved()
    reader = chain.Reader()
    assert reader.newest() == {mailbox.pk: head_of(mailbox)}
    other = chain.Head(chain=uuid4(), length=1, hash="0")
    # Overwritten in place: the file keeps its inode and does not shrink.
    chain.heads_file().write_text(
        "".join(f"{other.line(timezone.now().isoformat())}\n" for _ in range(9))
    )
    assert reader.newest() == {other.chain: other}


def head_of(mailbox: Mailbox) -> chain.Head:
    end = AuditChain.objects.get(pk=mailbox.pk)
    return chain.Head(chain=end.pk, length=end.length, hash=end.head)


def test_foreign_line_does_not_stop_anchoring(mailbox: Mailbox) -> None:
    say(mailbox)
    head = head_of(mailbox)
    chain.heads_file().parent.mkdir(parents=True)
    forged = json.loads(head.line(timezone.now().isoformat())) | {"seal": "0" * 64}
    chain.heads_file().write_text(json.dumps(forged) + "\n")
    assert anchors.anchor() == 1


def test_full_file_is_followed_by_one_with_every_head(
    mailbox: Mailbox, approved: Callable[..., PendingAction], monkeypatch: pytest.MonkeyPatch
) -> None:
    approved()
    audit.record(mailbox=None, event="paused", actor="command")
    anchors.anchor()
    first = chain.heads_file()
    monkeypatch.setattr(anchors, "FULL_BYTES", 0)
    monkeypatch.setattr(anchors, "BYTES_A_CHAIN", 1)
    anchors.anchor()
    second = chain.heads_file()
    assert (first.name, second.name) == ("audit-heads.jsonl", "audit-heads-000001.jsonl")
    assert {UUID(line["chain"]) for line in lines()} == set(
        AuditChain.objects.values_list("pk", flat=True)
    )
    monkeypatch.undo()
    say(mailbox)
    chain.append(head_of(mailbox))
    assert len(lines()) == 3
    assert len(first.read_text().splitlines()) == 2
    assert proof.verify() == []
    cut(mailbox, 2)
    assert compared() == [(3, "cut")]


def test_every_line_is_copied_to_another_place(
    approved: Callable[..., PendingAction], settings: Any, tmp_path: Path, mailbox: Mailbox
) -> None:
    settings.MAILHUB_AUDIT_ANCHORS_COPY = str(tmp_path / "elsewhere")
    approved()
    maintenance.sweep()
    copy = tmp_path / "elsewhere" / "audit-heads.jsonl"
    assert copy.read_text() == chain.heads_file().read_text() != ""
    approved(subject="Another")
    maintenance.sweep()
    assert copy.read_text() == chain.heads_file().read_text()
    assert proof.verify() == []

    # The attacker rewrites the database and the file beside it, but cannot reach the copy.
    chain.heads_file().unlink()
    cut(mailbox, 3)
    assert "cut" in wrong()


def test_sweepers_anchor_once_between_them(approved: Callable[..., PendingAction]) -> None:
    approved()
    wrote = all_at_once([lambda: anchors.anchor(at_most_every=3600)] * 8)
    assert sum(wrote) <= 1
    assert len(lines()) == 1 + sum(wrote)
    assert anchors.anchor(at_most_every=3600) == 0


def test_stamp_of_a_clock_that_was_ahead_does_not_stop_anchoring(
    mailbox: Mailbox, settings: Any
) -> None:
    say(mailbox)
    assert anchors.anchor(at_most_every=3600) == 1
    later = time.time() + 86_400
    os.utime(Path(settings.MAILHUB_HOME) / "audit-heads.stamp", (later, later))
    say(mailbox)
    assert anchors.anchor(at_most_every=3600) == 1


def test_approval_waits_for_one_write_and_no_disk(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(mailbox)
    head = head_of(mailbox)
    asked: list[str] = []

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def note(*given: Any) -> Any:
            asked.append(name)
            return call(*given)

        return note

    for module, name in [(os, "write"), (os, "fsync"), (os, "fdatasync"), (fcntl, "flock")]:
        monkeypatch.setattr(module, name, noted(name, getattr(module, name)))
    chain.append(head)
    assert asked == ["write"]


# Orders


def test_claim_without_approvals_is_reported(
    approved: Callable[..., PendingAction], alice: User
) -> None:
    action = approved()
    work()
    assert wrong() == []
    audit.record(
        mailbox=action.mailbox_id, event="undone", actor=f"user:{alice.pk}", action_id=action.pk
    )
    audit.record(
        mailbox=action.mailbox_id, event="claimed", actor="worker", action_id=action.pk, fence=2
    )
    assert wrong() == ["unapproved"]


@pytest.mark.parametrize("given", [{"given": 1, "needed": 2}, {"given": "2", "needed": 1}, {}])
def test_claim_with_too_few_approvals_is_reported(mailbox: Mailbox, given: dict[str, Any]) -> None:
    action = uuid4()
    audit.record(mailbox=mailbox, event="created", actor="user:1", action_id=action)
    audit.record(mailbox=mailbox, event="approved", actor="user:1", action_id=action, **given)
    audit.record(mailbox=mailbox, event="claimed", actor="worker", action_id=action, fence=1)
    assert wrong() == ["unapproved"]


def test_attempt_without_a_claim_is_reported(approved: Callable[..., PendingAction]) -> None:
    action = approved()
    with guards.lift_guards(connection):
        Attempt.objects.create(
            action=action,
            fence=7,
            worker="nobody",
            started_at=timezone.now(),
            ended_at=timezone.now(),
            verdict="not_sent",
        )
    assert wrong() == ["unclaimed"]


def test_forged_decision_is_reported_and_an_old_one_is_not(
    approved: Callable[..., PendingAction], bob: User, api: Api, reviewer: Reviewer
) -> None:
    action = approved()
    reviewer.decide(api.propose(subject="No"), "reject", note="No.")
    assert wrong() == []
    with guards.lift_guards(
        connection
    ):  # older than the keyed digest: the keyed audit has its event
        Decision.objects.update(seal="", method="")
    assert wrong() == []
    Decision.objects.create(
        action=action,
        person=bob,
        verdict="rejected",
        revision=1,
        approval_round=1,
        digest=action.digest,
        created_at=timezone.now(),
    )
    assert wrong() == ["unsealed"]
    with guards.lift_guards(connection):
        Decision.objects.update(seal="0" * 64)
    assert wrong() == ["unsealed"] * 3


def test_head_after_half_a_line_counts(
    approved: Callable[..., PendingAction], mailbox: Mailbox, alice: User, settings: Any
) -> None:
    """Let a full disk cut a head, and take an approval back when there is room again."""
    settings.MAILHUB_UNDO_SECONDS = 3600
    action = approved()
    head = head_of(mailbox)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = chain.heads_file().stat().st_size + 40
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(OSError):
            chain.append(head)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    decide.undo(action_id=action.pk, person=alice)

    assert chain.READER.newest()[mailbox.pk].length == head_of(mailbox).length
