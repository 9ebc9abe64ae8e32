"""A verification that continues from the verified end, and anchoring of the chains that moved."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Mailbox
from approvals import guards
from approvals.audit import anchors, chain, proof, verified
from approvals.models import AuditChain, AuditEvent, Decision, PendingAction
from tests.approvals.audit_pages import own_heads
from tests.approvals.test_anchors import cut, say
from tests.conftest import Api, Reviewer
from tests.support.work import work

__all__ = ["own_heads"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def examined(api: Api, reviewer: Reviewer) -> str:
    """Verify a chain whose action is approved, and leave one that is approved later."""
    later = api.propose(subject="Later")
    reviewer.decide(api.propose(), "approve")
    call_command("verify_audit", verbosity=0)
    return later


def found(*, all_events: bool) -> set[str]:
    return {each.wrong for each in proof.examine(None if all_events else verified.load()).findings}


def by_force(sequence: int, **changes: Any) -> None:
    with guards.lift_guards(connection):
        AuditEvent.objects.filter(mailbox__isnull=False, sequence=sequence).update(**changes)


def test_change_after_the_verified_end_is_found_by_both(examined: str, mailbox: Mailbox) -> None:
    say(mailbox, 2)
    assert (found(all_events=True), found(all_events=False)) == (set(), set())
    by_force(AuditChain.objects.get(pk=mailbox.pk).length - 1, actor="user:0")
    assert (found(all_events=True), found(all_events=False)) == ({"altered"}, {"altered"})
    with pytest.raises(CommandError):
        call_command("verify_audit", "--continue")


def test_change_before_the_verified_end_is_found_by_a_full_run(examined: str) -> None:
    by_force(1, actor="user:0")
    assert (found(all_events=True), found(all_events=False)) == ({"altered"}, set())


@pytest.mark.parametrize("grows_again", [False, True])
def test_cut_before_the_verified_end_is_found_by_both(
    examined: str, mailbox: Mailbox, grows_again: bool
) -> None:
    cut(mailbox, 2)
    if grows_again:
        say(mailbox, 5)
    chain.heads_file().unlink()
    assert found(all_events=True) == set()  # nothing else shows it
    assert found(all_events=False) == ({"rewritten"} if grows_again else {"cut"})


def test_claim_after_an_approval_before_the_end_is_no_finding(examined: str) -> None:
    work()  # claims the approved action
    assert found(all_events=False) == set()
    with guards.lift_guards(connection):
        chain.record(
            mailbox=Mailbox.objects.get(),
            event="claimed",
            actor="worker",
            action_id=PendingAction.objects.get(pk=examined).pk,
        )
    assert (found(all_events=True), found(all_events=False)) == ({"unapproved"}, {"unapproved"})


def test_forged_decision_after_the_end_is_found_by_both(examined: str, reviewer: Reviewer) -> None:
    reviewer.decide(examined, "approve")
    with guards.lift_guards(connection):
        Decision.objects.filter(action__pk=examined).update(seal="0" * 80)
    assert (found(all_events=True), found(all_events=False)) == ({"unsealed"}, {"unsealed"})


def test_verified_end_without_our_signature_is_not_used(
    examined: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = Path(verified._path())
    stored.write_text(json.dumps(json.loads(stored.read_text()) | {"decisions": 10**9}))
    call_command("verify_audit", "--continue")
    told = capsys.readouterr()
    assert "all events are checked" in told.err
    assert f"{AuditEvent.objects.count()} events in" in told.out


def test_continued_verification_reads_no_unmoved_chain(
    examined: str, mailbox: Mailbox, capsys: pytest.CaptureFixture[str]
) -> None:
    with CaptureQueriesContext(connection) as unmoved:
        assert proof.examine(verified.load()).looked_at == 0
    assert not [each for each in unmoved if '"chain_id" =' in each["sql"]]
    say(mailbox)
    call_command("verify_audit", "--continue")
    assert "1 new events in 1 chains" in capsys.readouterr().out


def anchor_again() -> int:
    """Anchor as the sweeper does, once the time after the round before is over."""
    stamp = chain.heads_file().with_name("audit-heads.stamp")
    if stamp.exists():
        os.utime(stamp, (0, 0))
    return anchors.anchor(at_most_every=anchors.ANCHOR_SECONDS)


def test_anchoring_reads_only_the_chains_with_new_events(
    approved: Callable[..., PendingAction],
    mailbox: Mailbox,
    foreign_mailbox: Mailbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anchors, "READ_AGAIN", 0)
    say(mailbox)
    say(foreign_mailbox)
    assert anchor_again() == 2
    with guards.lift_guards(connection):  # an end without an event: only a complete round sees it
        AuditChain.objects.filter(pk=foreign_mailbox.pk).update(head="0" * 64)
    say(mailbox)
    assert anchor_again() == 1
    monkeypatch.setattr(anchors, "COMPLETE_SECONDS", 0)
    assert anchor_again() == 1


def test_lost_file_of_anchors_gets_every_head_again(
    mailbox: Mailbox, foreign_mailbox: Mailbox
) -> None:
    say(mailbox)
    say(foreign_mailbox)
    anchors.anchor()
    chain.heads_file().unlink()
    assert anchor_again() == 2
