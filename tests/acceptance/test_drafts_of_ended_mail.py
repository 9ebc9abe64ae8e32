"""A prepared draft that its owner sends, whatever becomes of the action."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals.gate import overdue
from approvals.models import AuditEvent, PendingAction, Preparation
from approvals.worker import maintenance
from tests.acceptance.test_answered_with_a_draft import api, arrive, drafts, server, throttle
from tests.acceptance.test_answers_to_waiting_mail import ASKED, letter
from tests.approvals.webhook_listener import Listener, httpserver, listener, told
from tests.conftest import Api, Reviewer
from tests.faults.gmail_road import now_it_is_time
from tests.faults.test_changed_road import approve_again, come_back, edit
from tests.support.people.gmail import gmail
from tests.support.people.outlook import graph
from tests.support.servers.gmail import GmailServer
from tests.support.servers.gmail_data import Call
from tests.support.servers.sandbox import ADA
from tests.support.work import work

__all__ = ["api", "gmail", "graph", "httpserver", "listener", "server"]
pytestmark = pytest.mark.django_db(transaction=True)
MAIL: dict[str, Any] = {
    "to": ["mira@northwind.example"],
    "subject": "Offer",
    "body": "As agreed.",
}


def send_by_hand(server: Any) -> None:
    """Send the draft as the mailbox owner does."""
    if isinstance(server, GmailServer):
        (draft,) = server.box(ADA).drafts
        server._send(server.box(ADA), draft)
    else:
        server.accept(ADA, server.drafts(ADA)[0], "by hand", save=True)


def take_away(server: Any) -> None:
    """Send the draft as its owner does, who files the mail elsewhere."""
    send_by_hand(server)
    if isinstance(server, GmailServer):
        server.box(ADA).messages.clear()
    else:
        server.store.of(ADA).clear()


def send_before_its_removal(server: Any) -> None:
    """Let the owner send the draft directly before the order to destroy it is carried out."""
    if isinstance(server, GmailServer):

        def first(call: Call) -> None:
            server.before.clear()
            send_by_hand(server)

        server.before["drafts.delete"] = first
    else:

        def chooser(action: str) -> None:
            if action == "permanentDelete":
                server.chooser = lambda action: None
                send_by_hand(server)

        server.chooser = chooser


@pytest.mark.parametrize("how", ["withdrawn", "edited"])
def test_draft_that_is_sent_while_it_is_removed_is_told(
    server: Any, api: Api, reviewer: Reviewer, alice: User, how: str
) -> None:
    action = PendingAction.objects.get(pk=api.propose(to=["mira@northwind.example"]))
    reviewer.decide(str(action.pk), "approve")
    throttle(server)
    now_it_is_time()
    work()
    if how == "withdrawn":
        api.post(f"/actions/{action.pk}/cancel")
    else:
        come_back()
        edit(action, alice)
        approve_again(action, alice)
    send_before_its_removal(server)

    work()
    maintenance.tidy()
    now_it_is_time()
    maintenance.tidy()

    told = api.get(f"/actions/{action.pk}").json()
    assert told["state"] == ("cancelled" if how == "withdrawn" else "unknown")
    assert told.keys() & {"also_sent_at", "may_have_been_sent_at"}
    assert len(server.ledger) == 1


def test_draft_that_is_gone_from_an_ended_mail_leaves_a_doubt(
    server: Any, api: Api, reviewer: Reviewer
) -> None:
    action_id = api.propose(**MAIL)
    reviewer.decide(action_id, "approve")
    throttle(server)
    now_it_is_time()
    work()
    take_away(server)
    api.post(f"/actions/{action_id}/cancel")

    maintenance.sweep()
    PendingAction.objects.update(finished_at=timezone.now() - timedelta(hours=3))
    now_it_is_time()
    maintenance.sweep()

    told = api.get(f"/actions/{action_id}").json()
    assert "may_have_been_sent_at" in told
    assert "An earlier attempt may have done it already" in told["next"]
    page = reviewer.page(action_id).content.decode()
    assert "Its draft was gone from the mailbox" in page
    assert "Nothing was sent." not in page
    again = api.tool("send_email", **MAIL, confirm=True).json()
    assert "may_have_been_sent" in {each["code"] for each in again["warnings"]}
    assert Preparation.objects.get().tidy_at > timezone.now() + timedelta(hours=12)
    PendingAction.objects.filter(pk=action_id).update(
        finished_at=timezone.now() - timedelta(days=400)
    )
    now_it_is_time()
    overdue.purge()
    maintenance.tidy()
    assert "may_have_been_sent_at" in api.get(f"/actions/{action_id}").json()


@pytest.mark.parametrize(
    ("why", "days"),
    [
        pytest.param("sign-in", (0, 1, 400), id="the sign-in has ended"),
        pytest.param("away", (1, 400), id="the provider is away"),
    ],
)
def test_draft_that_nobody_can_look_for_leaves_a_doubt(
    server: Any,
    api: Api,
    reviewer: Reviewer,
    settings: LazySettings,
    why: str,
    days: tuple[int, ...],
) -> None:
    action_id = api.propose(**MAIL)
    reviewer.decide(action_id, "approve")
    throttle(server)
    now_it_is_time()
    work()
    send_by_hand(server)
    api.post(f"/actions/{action_id}/cancel")
    if why == "sign-in":
        Mailbox.objects.update(status=Mailbox.Status.NEEDS_REAUTH)
    else:
        settings.GRAPH_BASE_URL = settings.GMAIL_BASE_URL = "http://127.0.0.1:1"
    maintenance.tidy()
    for ago in days:
        ended = timezone.now() - timedelta(days=ago)
        PendingAction.objects.filter(pk=action_id).update(finished_at=ended)
        overdue.purge()
        told = api.get(f"/actions/{action_id}").json()
        assert told["state"] == "cancelled"
        assert "An earlier attempt may have done it already" in told["next"]
        page = reviewer.page(action_id).content.decode()
        assert "Its owner may have sent the draft." in page
        assert "Nothing was sent." not in page
    settings.GRAPH_BASE_URL = settings.GMAIL_BASE_URL = server.url
    again = api.tool("send_email", **MAIL, confirm=True).json()
    assert "may_have_been_sent" in {each["code"] for each in again["warnings"]}


@pytest.mark.parametrize("fate", ["filed elsewhere", "found in Sent", "not looked for"])
def test_push_about_an_ended_mail_knows_the_doubt(
    server: Any, api: Api, reviewer: Reviewer, listener: Listener, fate: str
) -> None:
    listener.added(api, events=["action.rejected"])
    action_id = api.propose(**MAIL)
    reviewer.decide(action_id, "approve")
    throttle(server)
    now_it_is_time()
    work()
    come_back()
    if fate == "not looked for":
        Mailbox.objects.update(status=Mailbox.Status.NEEDS_REAUTH)
    elif fate == "found in Sent":
        send_by_hand(server)
    else:
        take_away(server)
    now_it_is_time()
    maintenance.tidy()
    reviewer.decide(action_id, "reject")
    now_it_is_time()
    maintenance.tidy()
    told()

    pushed, now = listener.heard[-1]["data"], api.get(f"/actions/{action_id}").json()

    assert now["state"] == "rejected"
    assert "An earlier attempt may have done it already" in pushed["next"]
    names = ("state", "next", "may_have_been_sent_at")
    assert {name: pushed.get(name) for name in names} == {name: now.get(name) for name in names}


@pytest.mark.parametrize("how", ["withdrawn by its program", "withdrawn by an answer"])
def test_sent_draft_of_an_ended_mail_is_told(
    server: Any, api: Api, reviewer: Reviewer, how: str
) -> None:
    arrive(server, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    by_answer = how == "withdrawn by an answer"
    later = (timezone.now() + timedelta(days=3)).isoformat()
    more: dict[str, Any] = {"unless_answered": True, "send_at": later} if by_answer else {}
    answered = api.tool("list_emails").json()["emails"][0]["id"]
    proposed = api.tool(
        "reply_email", message_id=answered, comment="On Thursday.", confirm=True, **more
    )
    action = PendingAction.objects.get(pk=proposed.json()["action"]["id"])
    reviewer.decide(str(action.pk), "approve")
    throttle(server)
    now_it_is_time()
    work()
    assert drafts(server) == 1
    send_by_hand(server)

    if by_answer:
        arrive(server, letter(In_Reply_To=ASKED))
        now_it_is_time()
        work()
    else:
        api.post(f"/actions/{action.pk}/cancel")
    maintenance.sweep()

    told = api.get(f"/actions/{action.pk}").json()
    assert told["state"] == "cancelled"
    assert "An earlier attempt may have done it already" in told["next"]
    page = reviewer.page(str(action.pk)).content.decode()
    assert "It was sent all the same." in page
    assert AuditEvent.objects.filter(event="late_outcome").exists()
    assert not Preparation.objects.exists()
