"""A mailbox that moves to another account while mail is in doubt, or half done."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from accounts.connect.connecting import connect_mailbox, disconnect
from accounts.models import Mailbox, User
from approvals.gate.execute import execute
from approvals.models import AuditEvent, PendingAction, WatchedMailbox
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.approvals.lost_answers import text_of
from tests.approvals.test_restored import after_restore, home
from tests.approvals.test_restoring import put_in_sent
from tests.approvals.test_watches import ALICE, MIRA, answer, look, pass_days, send, told_of
from tests.conftest import Api, Reviewer
from tests.support.reports import report
from tests.support.servers.memory import MemoryServer, serving
from tests.support.work import work

__all__ = ["home"]
pytestmark = pytest.mark.django_db
NOT_THERE = "connected to another account or server since then"


@pytest.fixture
def elsewhere() -> Iterator[MemoryServer]:
    with serving() as found:
        yield found


def move(alice: User, server: MemoryServer) -> None:
    mailbox = Mailbox.objects.get()
    disconnect(mailbox, person=alice)
    connect_mailbox(
        owner=alice,
        address=mailbox.address,
        provider="memory",
        secrets={"server": server.name, "username": server.name},
        scopes=["read", "send"],
    )


def look_up(action: PendingAction) -> None:
    past = timezone.now() - timedelta(seconds=1)
    PendingAction.objects.filter(status="unknown").update(next_probe_at=past)
    maintenance.reconcile()
    action.refresh_from_db()


@pytest.fixture
def unknown(api: Api, alice: User, server: MemoryServer) -> PendingAction:
    """Return a mail that was sent and filed in Sent, but whose answer was lost."""
    move(alice, server)
    action = approve(api.propose(bcc=["secret@copy.example"]), alice)
    server.loses_answers = True
    work()
    server.loses_answers = False
    server.deliver(action.mailbox.address, server.ledger[0].source, folder="sent")
    action.refresh_from_db()
    assert action.status == "unknown"
    return action


def test_nobody_looks_in_another_account(
    unknown: PendingAction, alice: User, elsewhere: MemoryServer, reviewer: Reviewer
) -> None:
    move(alice, elsewhere)
    look_up(unknown)
    assert (unknown.status, unknown.next_probe_at, unknown.probes) == ("unknown", None, 0)
    shown = text_of(reviewer.page(str(unknown.pk)))
    assert NOT_THERE in shown
    assert "Check the Sent folder" in shown
    assert "has tried" not in shown


@pytest.mark.parametrize("status", ["disconnected", "needs_reauth"])
def test_page_promises_no_look_that_needs_a_person(
    unknown: PendingAction, reviewer: Reviewer, status: str
) -> None:
    assert "Next look" in text_of(reviewer.page(str(unknown.pk)))
    Mailbox.objects.update(status=status)
    look_up(unknown)
    assert "Next look" not in text_of(reviewer.page(str(unknown.pk)))


def test_the_same_account_connected_again_is_looked_in(
    unknown: PendingAction, alice: User, server: MemoryServer
) -> None:
    move(alice, server)
    look_up(unknown)
    assert unknown.status == "succeeded"


def test_copy_goes_to_no_other_account(
    api: Api, alice: User, server: MemoryServer, elsewhere: MemoryServer
) -> None:
    move(alice, server)
    action = approve(api.propose(bcc=["secret@copy.example"]), alice)
    assert execute(action.pk, worker="ends before the copy")
    move(alice, elsewhere)
    PendingAction.objects.update(settle_at=timezone.now() - timedelta(seconds=1))
    maintenance.settle()
    action.refresh_from_db()
    assert elsewhere.folder(action.mailbox.address, "sent") == []
    assert (action.settle_at, action.unsettled_at is None) == (None, False)


def test_follow_up_of_an_earlier_account_is_told(
    api: Api, alice: User, server: MemoryServer, elsewhere: MemoryServer
) -> None:
    move(alice, server)
    action = approve(api.propose(follow_up={"after_days": 1}), alice)
    assert execute(action.pk, worker="ends before the work after it")
    move(alice, elsewhere)
    PendingAction.objects.update(settle_at=timezone.now() - timedelta(seconds=1))
    maintenance.settle()
    elsewhere.deliver(ALICE, answer(action))  # as if forwarded there
    pass_days(2)
    look()
    assert AuditEvent.objects.get(event="unanswered").data == {"code": "incomplete"}


@pytest.mark.parametrize("is_same", [True, False])
def test_answers_count_in_the_same_account_only(
    api: Api, alice: User, server: MemoryServer, elsewhere: MemoryServer, is_same: bool
) -> None:
    move(alice, server)
    answered = send(api, alice)
    returned = send(api, alice, subject="Other")
    now = server if is_same else elsewhere
    now.deliver(ALICE, answer(answered))
    now.deliver(ALICE, report(returned.message_id, MIRA, to=ALICE))
    move(alice, now)
    look()
    assert ("answered_at" in told_of(api, answered)) == is_same
    assert ("bounced" in told_of(api, returned)) == is_same
    look()
    assert (WatchedMailbox.objects.get().look_at is not None) == is_same


def test_copy_of_a_mail_found_in_sent_goes_to_no_other_account(
    api: Api, alice: User, server: MemoryServer, elsewhere: MemoryServer, home: Path
) -> None:
    move(alice, server)
    action = approve(api.propose(bcc=["secret@copy.example"]), alice)
    put_in_sent(server, action)
    after_restore()
    action.refresh_from_db()
    assert action.status == "succeeded"
    move(alice, elsewhere)
    PendingAction.objects.update(settle_at=timezone.now() - timedelta(seconds=1))
    maintenance.settle()
    assert elsewhere.folder(action.mailbox.address, "sent") == []
