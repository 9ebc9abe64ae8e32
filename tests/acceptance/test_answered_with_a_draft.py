"""Answers that leave only unless somebody answers first, at providers that send a draft: the draft of
an earlier attempt is removed, and never sent.
"""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Membership, Role, User
from approvals.models import PendingAction
from approvals.worker import maintenance
from tests.acceptance.test_answers_to_waiting_mail import ASKED, letter, propose
from tests.conftest import Api, Reviewer, make_api
from tests.faults.gmail_road import now_it_is_time
from tests.support.people.gmail import connected, gmail
from tests.support.people.outlook import graph
from tests.support.servers.gmail import GmailServer
from tests.support.servers.graph import GraphServer, graph_mailbox
from tests.support.servers.sandbox import ADA
from tests.support.work import work

__all__ = ["gmail", "graph"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["graph", "gmail"])
def server(request: pytest.FixtureRequest) -> GraphServer | GmailServer:
    found: GraphServer | GmailServer = request.getfixturevalue(request.param)
    if isinstance(found, GraphServer):
        found.store.splits_subjects = True
    else:
        found.splits_subjects = True
    return found


@pytest.fixture
def api(server: GraphServer | GmailServer, alice: User) -> Api:
    if isinstance(server, GmailServer):
        return make_api(alice, connected(server, alice))
    mailbox = graph_mailbox(server, ADA)
    Membership.objects.create(mailbox=mailbox, user=alice, role=Role.MANAGER)
    return make_api(alice, mailbox)


def throttle(server: GraphServer | GmailServer) -> None:
    """Let the next order to send be refused, so that its draft stays."""
    if isinstance(server, GmailServer):
        server.fail("drafts.send", 429)
    else:
        server.fault("answer", status=429, code="ApplicationThrottled", Retry_After="1")


def drafts(server: GraphServer | GmailServer) -> int:
    if isinstance(server, GmailServer):
        return len(server.box(ADA).drafts)
    return len(server.drafts(ADA))


def arrive(server: GraphServer | GmailServer, source: bytes) -> None:
    """Deliver a mail now, which the clocks of these servers do not know."""
    source, now = source.replace(b"alice@", b"ada@").replace(b"\n", b"\r\n"), timezone.now()
    if isinstance(server, GmailServer):
        server.deliver(ADA, source, at=round(now.timestamp() * 1000))
    else:
        item = server.deliver(ADA, source)
        item.shown["receivedDateTime"] = f"{now:%Y-%m-%dT%H:%M:%S}Z"


def test_answer_withdraws_the_mail_and_its_draft(
    server: GraphServer | GmailServer, api: Api, reviewer: Reviewer
) -> None:
    arrive(server, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    answer = api.tool(
        *["reply_email"],
        message_id=api.tool("list_emails").json()["emails"][0]["id"],
        comment="On Thursday.",
        send_at=(timezone.now() + timedelta(days=3)).isoformat(),
        unless_answered=True,
        confirm=True,
    )
    action = PendingAction.objects.get(pk=answer.json()["action"]["id"])
    assert reviewer.decide(str(action.pk), "approve").status_code == 302
    throttle(server)
    now_it_is_time()
    work()
    assert drafts(server) == 1

    arrive(server, letter(In_Reply_To=ASKED, subject="New offer"))
    for _ in range(2):
        now_it_is_time()
        work()
        maintenance.tidy()

    told = api.get(f"/actions/{action.pk}").json()
    assert (told["state"], told["error"]["code"]) == ("cancelled", "withdrawn_answered")
    assert (server.ledger, drafts(server)) == ([], 0)


def test_next_answer_withdraws_it_whatever_its_sender(
    server: GraphServer | GmailServer, api: Api, reviewer: Reviewer
) -> None:
    arrive(server, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    asked = api.tool("list_emails").json()["emails"][0]["id"]
    arrive(server, letter(In_Reply_To=ASKED))  # the approver reads about this one
    answer = propose(api, message_id=asked, unless_answered=True).json()
    assert "thread_moved" in [each["code"] for each in answer["warnings"]]
    action_id = answer["action"]["id"]
    assert reviewer.decide(action_id, "approve").status_code == 302

    next_one = letter(sender="jo@alps.example", subject="Offer", id="<n@a>", In_Reply_To=ASKED)
    arrive(server, next_one)
    now_it_is_time()
    work()

    assert api.get(f"/actions/{action_id}").json()["state"] == "cancelled"
    assert server.ledger == []


@pytest.mark.parametrize("ahead", [timedelta(minutes=5), timedelta(days=1)])
def test_clock_ahead_at_the_proposal_hides_no_answer(
    server: GraphServer | GmailServer, api: Api, reviewer: Reviewer, ahead: timedelta
) -> None:
    arrive(server, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    asked = api.tool("list_emails").json()["emails"][0]["id"]
    action_id = propose(api, message_id=asked, unless_answered=True).json()["action"]["id"]
    PendingAction.objects.update(created_at=timezone.now() + ahead)
    assert reviewer.decide(action_id, "approve").status_code == 302

    answer = letter(sender="jo@alps.example", subject="Offer", id="<n@a>", In_Reply_To=ASKED)
    arrive(server, answer)
    now_it_is_time()
    work()

    assert api.get(f"/actions/{action_id}").json()["state"] == "cancelled"
    assert server.ledger == []
