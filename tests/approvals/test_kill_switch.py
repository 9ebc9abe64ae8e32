"""`pause` stops everything that has not been sent, at the claim; `resume` lets it continue."""

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from accounts.models import Mailbox, User
from approvals.core.types import ApprovedAction, PreviewWarning
from approvals.gate.execute import execute
from approvals.gate.pauses import switch
from approvals.models import AuditEvent, Pause, PendingAction
from approvals.worker import maintenance
from tests.approvals.kinds import Script
from tests.conftest import Reviewer, make_mailbox
from tests.support.servers.memory import MemoryServer
from tests.support.work import offered, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def command(name: str, *arguments: str) -> str:
    out = StringIO()
    call_command(name, *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.fault(17)
@pytest.mark.parametrize("scope", [[], ["--mailbox", "Alice@lovelace.example"]])
def test_nothing_leaves_during_a_pause_and_all_after_it(
    approved: Callable[..., PendingAction], server: MemoryServer, scope: list[str]
) -> None:
    action = approved()

    assert "1 approved wait" in command("pause", *scope)
    assert "was paused" in command("pause", *scope)
    assert offered() == []
    assert execute(action.pk, worker="test") is False
    maintenance.sweep()
    work()
    action.refresh_from_db()
    assert (action.status, action.approval_round) == ("approved", 1)
    assert server.ledger == []

    assert "may leave again" in command("resume", *scope)
    work()
    assert len(server.ledger) == 1
    assert "was not paused" in command("resume", *scope)


def test_pages_name_the_pause_and_offer_only_what_helps(
    approved: Callable[..., PendingAction],
    mailbox: Mailbox,
    bob: User,
    reviewer: Reviewer,
    server: MemoryServer,
) -> None:
    action = approved()
    its = f"/mailboxes/{mailbox.pk}/"

    def pages(person: Reviewer) -> str:
        addresses = ("/mailboxes/", its, f"/actions/{action.pk}/", "/?tab=leaving")
        return "".join(person.client.get(address).content.decode() for address in addresses)

    def press(person: Reviewer, pause: str) -> int:
        person.client.get(its)
        token = person.client.cookies["csrftoken"].value
        return person.client.post(
            f"{its}pause/", {"pause": pause, "csrfmiddlewaretoken": token}
        ).status_code

    assert "paused" not in pages(reviewer)
    assert press(Reviewer.signed_in(bob), "on") == 403
    assert press(reviewer, "on") == 302
    shown = pages(reviewer)
    assert shown.count(">paused</span>") == 2
    assert "Approved, on hold" in shown
    assert "Resume: mail leaves again" in shown
    assert "Nothing leaves from this mailbox meanwhile." in shown  # the queue
    assert press(reviewer, "off") == 302
    assert "paused" not in pages(reviewer)
    told = AuditEvent.objects.filter(event__in=["paused", "resumed"]).values_list("event", "actor")
    assert list(told) == [(event, f"user:{reviewer.user.pk}") for event in ("paused", "resumed")]

    switch.pause(mailbox=None, actor="test")
    shown = pages(reviewer)
    assert shown.count(">paused</span>") == 2
    assert "Everything is paused." in shown
    assert 'data-action="pause"' not in shown
    make_mailbox("second@lovelace.example", server, reviewer.user)
    queue = reviewer.client.get("/").content.decode()
    assert "Everything is paused." in queue  # once, not for each mailbox
    assert "Nothing leaves from this mailbox" not in queue


def test_pause_of_one_mailbox_holds_no_other(
    foreign_mailbox: Mailbox, approved: Callable[..., PendingAction], server: MemoryServer
) -> None:
    approved()
    switch.pause(mailbox=foreign_mailbox, actor="test")
    assert switch.is_paused(foreign_mailbox)

    work()

    assert len(server.ledger) == 1


def test_ending_the_global_pause_keeps_that_of_a_mailbox(
    approved: Callable[..., PendingAction], mailbox: Mailbox, server: MemoryServer
) -> None:
    approved()
    switch.pause(mailbox=None, actor="test")
    switch.pause(mailbox=mailbox, actor="test")

    switch.resume(mailbox=None, actor="test")
    work()

    assert server.ledger == []
    assert switch.is_paused(mailbox)


def test_claim_sees_a_pause_at_the_last_moment(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> None:
    def paused_meanwhile(approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        switch.pause(mailbox=None, actor="test")
        return ()

    action = approved()
    script.seen = paused_meanwhile

    assert execute(action.pk, worker="test") is False
    assert server.ledger == []


def test_both_commands_are_audited_and_dry_run_does_nothing(
    approved: Callable[..., PendingAction], mailbox: Mailbox
) -> None:
    approved()
    assert "1 approved would wait" in command("pause", "--dry-run")
    assert not Pause.objects.exists()
    command("pause")
    assert "1 approved may leave" in command("resume", "--dry-run")
    assert Pause.objects.exists()
    command("pause", "--mailbox", mailbox.address)
    command("resume")

    events = AuditEvent.objects.filter(event__in=["paused", "resumed"]).order_by("at")
    assert [(event.event, event.mailbox_id, event.actor) for event in events] == [
        ("paused", None, "command"),
        ("paused", mailbox.pk, "command"),
        ("resumed", None, "command"),
    ]


def test_unknown_mailbox_is_named(db: None) -> None:
    with pytest.raises(CommandError, match="no mailbox"):
        command("pause", "--mailbox", "nobody@lovelace.example")
