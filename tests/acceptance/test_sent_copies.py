"""One copy of each sent mail in Sent, saved by mailhub or the provider; the folders that a manager chose."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils.html import escape

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import AuditEvent, PendingAction
from approvals.worker import maintenance
from tests.faults.smtp_road import now_it_is_time
from tests.support.people.browser import browser
from tests.support.people.office import SENT, Office, letter, office
from tests.support.servers.smtp import Accepted
from tools.sending import copies

__all__ = ["office"]
pytestmark = pytest.mark.django_db(transaction=True)
Pass = Callable[[], None]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Pass:
    """Return a function that lets all waiting times for copies pass, and does what is due."""

    def go_on() -> None:
        for name in ("LOOK_AFTER", "PATIENCE"):
            monkeypatch.setattr(copies, name, timedelta())
        now_it_is_time("settle_at")
        maintenance.settle()
        monkeypatch.undo()

    return go_on


def window(office: Office) -> Client:
    return browser(User.objects.get(email=office.ada))


def save(office: Office, sent_copies: str, **folders: str) -> None:
    page = f"/mailboxes/{office.mailbox.pk}/folders/"
    answer = window(office).post(page, {"sent_copies": sent_copies, **folders})
    assert answer.status_code == 302


def send(office: Office) -> str:
    """Send a mail, and return the address of its page."""
    proposal = office.tool(
        "send_email", to=[office.mira], subject="Offer", body="Ours.\n", confirm=True
    )
    assert office.approve(proposal)["state"] == "succeeded"
    return f"/actions/{proposal['action']['id']}/"


def file_copy(office: Office) -> None:
    """Put the copy of the last mail into Sent, as the provider."""
    office.imap.deliver(office.ada, office.smtp.ledger[-1].content, folder=SENT, unread=False)


def file_at_once(office: Office) -> None:
    """Let the provider put a copy of each accepted mail into Sent."""
    deliver = office.smtp.on_accept
    assert deliver is not None

    def both(accepted: Accepted) -> None:
        deliver(accepted)
        office.imap.deliver(office.ada, accepted.content, folder=SENT, unread=False)

    office.smtp.on_accept = both


def learned(office: Office) -> bool | None:
    return Mailbox.objects.get(pk=office.mailbox.pk).provider_files_copies


@pytest.fixture
def fresh(office: Office) -> Office:
    """Return an office whose mailbox has sent nothing yet."""
    Mailbox.objects.filter(pk=office.mailbox.pk).update(provider_files_copies=None)
    return office


def test_provider_that_files_late_gets_no_second_copy(fresh: Office, later: Pass) -> None:
    page = send(fresh)
    assert fresh.folder(SENT) == []
    waiting = PendingAction.objects.get()
    assert waiting.settle_at is not None
    assert "not done yet" in fresh.reviewer.client.get(page).content.decode()
    file_copy(fresh)
    later()

    assert (len(fresh.folder(SENT)), learned(fresh)) == (1, True)
    assert PendingAction.objects.get().settle_at is None
    send(fresh)
    assert len(fresh.folder(SENT)) == 1  # the next one is expected
    file_copy(fresh)
    later()
    assert len(fresh.folder(SENT)) == 2


def test_provider_that_files_at_once_is_recognised(fresh: Office) -> None:
    file_at_once(fresh)
    for number in (1, 2):
        send(fresh)
        assert len(fresh.folder(SENT)) == number
    assert learned(fresh)
    assert not PendingAction.objects.exclude(settle_at=None).exists()


def test_mailhub_saves_the_copy_where_the_provider_does_not(fresh: Office, later: Pass) -> None:
    send(fresh)
    later()
    assert (len(fresh.folder(SENT)), learned(fresh)) == (1, False)
    later()
    assert PendingAction.objects.get().settle_at is None

    send(fresh)
    assert len(fresh.folder(SENT)) == 2  # without a wait


def test_copy_after_our_own_is_noticed_once(fresh: Office, later: Pass) -> None:
    send(fresh)
    later()
    file_copy(fresh)  # later than any provider known
    later()
    assert learned(fresh)
    send(fresh)
    file_copy(fresh)
    later()
    assert len(fresh.folder(SENT)) == 3


def test_provider_that_stops_filing_leaves_no_gap(fresh: Office, later: Pass) -> None:
    Mailbox.objects.filter(pk=fresh.mailbox.pk).update(provider_files_copies=True)
    send(fresh)
    assert fresh.folder(SENT) == []
    later()
    assert (len(fresh.folder(SENT)), learned(fresh)) == (1, False)


def test_missing_copy_of_the_provider_is_reported(office: Office, later: Pass) -> None:
    save(office, "provider")
    page = send(office)
    later()
    assert office.folder(SENT) == []
    assert "not done yet" in office.reviewer.client.get(page).content.decode()

    file_copy(office)
    later()
    assert "not done yet" not in office.reviewer.client.get(page).content.decode()
    assert len(office.folder(SENT)) == 1


def test_mailhub_saves_the_copy_if_a_manager_says_so(fresh: Office) -> None:
    save(fresh, "mailhub")
    send(fresh)
    assert len(fresh.folder(SENT)) == 1
    assert learned(fresh) is None
    file_at_once(fresh)
    send(fresh)
    assert len(fresh.folder(SENT)) == 2


def test_copy_has_the_date_that_the_mail_left_with(office: Office) -> None:
    deliver = office.smtp.on_accept
    assert deliver is not None
    with time_machine.travel(datetime.now(UTC), tick=True) as clock:

        def slowly(accepted: Accepted) -> None:
            deliver(accepted)
            clock.shift(timedelta(seconds=7))

        office.smtp.on_accept = slowly
        send(office)

    (copy,), (left,) = office.folder(SENT), office.smtp.ledger
    assert copy["Date"] == message_from_bytes(left.content)["Date"]
    receipt = office.api.get(f"/actions/{PendingAction.objects.get().pk}").json()["receipt"]
    assert copy["Date"].datetime == datetime.fromisoformat(receipt["date"])
    assert datetime.fromisoformat(receipt["at"]) > copy["Date"].datetime


@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
def test_answer_and_forward_leave_no_copy_on_request(office: Office, tool: str) -> None:
    given: dict[str, Any] = {"comment": "Yes.\n"}
    if tool == "forward_email":
        given["to"] = [office.mira]
    message_id = office.receive(letter(to=office.ada, sender=office.mira))
    proposal = office.tool(
        tool, message_id=message_id, save_to_sent_items=False, confirm=True, **given
    )
    assert "no_sent_copy" in {warning["code"] for warning in proposal["warnings"]}
    office.approve(proposal)
    assert (len(office.smtp.ledger), office.folder(SENT)) == (1, [])

    save(office, "provider")
    problem = office.refused(tool, message_id=message_id, save_to_sent_items=False, **given)
    assert [error["field"] for error in problem["errors"]] == ["save_to_sent_items"]


def test_manager_chooses_the_folders(office: Office) -> None:
    client = office.imap.signed_in(office.ada)
    for name in ("Ablage", "Entwurf & Co", "Ärger"):
        client.create_folder(name)
    place = f"/mailboxes/{office.mailbox.pk}/folders/"
    page = office.reviewer.client.get(place).content.decode()
    assert f"Automatic: {SENT}" in page
    assert escape("Entwurf & Co") in page

    save(office, "mailhub", sent_folder="Ablage", drafts_folder="Entwurf & Co")

    office.tool("create_draft", to=[office.mira], subject="Later", body="x.\n")
    send(office)
    assert (len(office.folder("Ablage")), len(office.folder("Entwurf & Co"))) == (1, 1)
    assert (office.folder(SENT), office.folder("Drafts")) == ([], [])
    roles = {each.get("role"): each["name"] for each in office.tool("list_folders")["folders"]}
    assert (roles["sent"], roles["drafts"]) == ("Ablage", "Entwurf & Co")
    assert AuditEvent.objects.filter(event="folders_chosen", mailbox=office.mailbox).exists()

    client.delete_folder("Ablage")
    assert "is gone" in office.reviewer.client.get(place).content.decode()
    send(office)
    assert len(office.folder(SENT)) == 1


def test_folder_that_is_not_there_cannot_be_chosen(office: Office) -> None:
    place = f"/mailboxes/{office.mailbox.pk}/folders/"
    for wrong in (
        {"sent_folder": "Nowhere"},
        {"sent_folder": "INBOX"},
        {"sent_folder": "Archive", "drafts_folder": "Archive"},
        {"drafts_folder": SENT},  # it is Sent's without a choice
    ):
        answer = window(office).post(place, {"sent_copies": "automatic", **wrong})
        assert answer.status_code == 422
    Membership.objects.update(role=Role.APPROVER)
    assert office.reviewer.client.get(place).status_code == 403
