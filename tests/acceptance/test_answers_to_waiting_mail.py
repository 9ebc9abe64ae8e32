"""Approved answers that wait for their time, while the other side writes first."""

from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals.models import PendingAction
from tests.approvals.conftest import approve
from tests.conftest import Api, Reviewer, make_api
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)

ALICE, MIRA = "alice@lovelace.example", "mira@northwind.example"
ASKED = "<asked@northwind.example>"


ANSWERS = pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"In_Reply_To": ASKED}, id="in-reply-to"),
        pytest.param({"References": ASKED}, id="references"),
        pytest.param({"In_Reply_To": ASKED, "subject": "New offer"}, id="other-subject"),
        pytest.param({"In_Reply_To": ASKED, "sender": "desk@alps.example"}, id="other-address"),
    ],
)
NO_ANSWERS = pytest.mark.parametrize(
    ("folder", "headers"),
    [
        pytest.param("sent", {"sender": "sales@lovelace.example"}, id="own"),
        pytest.param("inbox", {"Auto_Submitted": "auto-replied"}, id="automatic"),
        pytest.param("inbox", {"sender": "MAILER-DAEMON@lovelace.example"}, id="bounce"),
    ],
)


def letter(sender: str = MIRA, subject: str = "Delivery", **headers: str) -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"] = sender, subject
    message["To"] = headers.pop("to", ALICE)
    message["Message-ID"] = headers.pop("id", "<later@northwind.example>")
    message["Date"] = headers.pop("date", "Mon, 02 Nov 2026 11:00:00 +0000")
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content("Please wait.")
    return message.as_bytes()


@pytest.fixture
def waiting(api: Api, alice: User, server: MemoryServer) -> PendingAction:
    """Return an approved answer that leaves in three days."""
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    return approve(propose(api).json()["action"]["id"], alice)


@pytest.fixture
def conditional(api: Api, alice: User, server: MemoryServer) -> PendingAction:
    """Return an approved answer that leaves in three days unless somebody answers first."""
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    return approve(propose(api, unless_answered=True).json()["action"]["id"], alice)


def propose(api: Api, **more: Any) -> Any:
    message_id = more.pop("message_id", None) or api.tool("list_emails").json()["emails"][0]["id"]
    moment = timezone.now() + timedelta(days=3)
    return api.tool(
        "reply_email",
        **{
            "message_id": message_id,
            "comment": "On Thursday.",
            "send_at": moment.isoformat(),
            "confirm": True,
            **more,
        },
    )


def come_due() -> PendingAction:
    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    work()
    return PendingAction.objects.get()


@ANSWERS
@pytest.mark.parametrize("question", ["there", "filed", "gone"])
def test_answer_returns_the_waiting_mail_to_a_person(
    waiting: PendingAction, server: MemoryServer, headers: dict[str, str], question: str
) -> None:
    inbox = server.folder(ALICE, "inbox")
    if question == "filed":  # it has another id there
        server.deliver(ALICE, inbox[0].source, folder="archive")
    if question != "there":
        inbox[0].source = b""
    server.deliver(ALICE, letter(**headers))

    action = come_due()

    assert server.ledger == []
    assert (action.status, (action.returned or {})["code"]) == ("pending", "thread_moved")


@NO_ANSWERS
def test_mail_that_is_no_answer_holds_nothing_back(
    waiting: PendingAction, server: MemoryServer, folder: str, headers: dict[str, str]
) -> None:
    server.deliver(ALICE, letter(In_Reply_To=ASKED, **headers), folder=folder)

    assert come_due().status == "succeeded"
    assert len(server.ledger) == 1


def own_answer(**headers: str) -> bytes:
    given = {"to": MIRA, "In_Reply_To": ASKED, "id": "<by-hand@lovelace.example>", **headers}
    return letter(ALICE, **given)


@pytest.mark.parametrize(
    ("folder", "headers", "returns"),
    [
        ("sent", {}, True),
        ("archive", {}, True),  # filed after it was sent
        ("inbox", {"Cc": ALICE}, True),  # sent from another mailbox in the name of this one
        ("sent", {"to": "desk@alps.example"}, False),  # a forward, for example
        ("sent", {"Auto_Submitted": "auto-replied"}, False),
    ],
)
def test_own_answer_by_hand_returns_the_waiting_mail(
    waiting: PendingAction,
    server: MemoryServer,
    folder: str,
    headers: dict[str, str],
    returns: bool,
) -> None:
    server.deliver(ALICE, own_answer(**headers), folder=folder)

    action = come_due()

    ended = (action.status, (action.returned or {}).get("code"), len(server.ledger))
    assert ended == (("pending", "answered_already", 0) if returns else ("succeeded", None, 1))


def test_second_answer_to_a_mail_is_a_warning(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    message_id = api.tool("list_emails").json()["emails"][0]["id"]
    first = propose(api, message_id=message_id).json()["action"]["id"]
    by_hand = own_answer(date="Mon, 02 Nov 2099 10:00:00 +0000")
    server.deliver(ALICE, by_hand, folder="sent")

    again = propose(api, message_id=message_id, comment="Never.").json()

    assert "answered_already" in [each["code"] for each in again["warnings"]]
    refused = reviewer.decide(first, "approve")
    assert (refused.status_code, b"they get one more" in refused.content) == (409, True)
    beside = reviewer.client.get(f"/actions/{first}/conversation/").content.decode()
    assert "There are newer messages" in beside
    assert "No new messages" not in beside


def test_reminder_of_own_mail_is_no_second_answer(api: Api, server: MemoryServer) -> None:
    server.deliver(ALICE, letter(ALICE, id=ASKED, to=MIRA), folder="sent")
    (card,) = api.tool("list_emails", folder="sent").json()["emails"]
    server.deliver(ALICE, own_answer(), folder="sent")

    proposed = propose(api, message_id=card["id"]).json()

    assert "answered_already" not in [each["code"] for each in proposed["warnings"]]


def test_answer_returns_a_waiting_draft_to_a_person(
    api: Api, alice: User, server: MemoryServer
) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    message_id = api.tool("list_emails").json()["emails"][0]["id"]
    drafted = api.tool("draft_reply", message_id=message_id, body="On Thursday.").json()
    answer = api.tool("send_draft", draft_id=drafted["id"], confirm=True)
    approve(answer.json()["action"]["id"], alice)
    server.deliver(ALICE, letter(In_Reply_To=ASKED))

    assert come_due().status == "pending"
    assert server.ledger == []


def test_conversation_without_an_end_is_a_warning(
    waiting: PendingAction, server: MemoryServer
) -> None:
    for number in range(51):
        own = letter(sender=ALICE, id=f"<{number}@lovelace.example>", In_Reply_To=ASKED)
        server.deliver(ALICE, own, folder="sent")

    action = come_due()

    assert (action.status, (action.returned or {})["code"]) == ("pending", "thread_unread")
    assert (
        "could not search the whole conversation" in action.current.preview["warnings"][-1]["text"]
    )


@ANSWERS
def test_answer_withdraws_mail_that_was_approved_so(
    api: Api,
    reviewer: Reviewer,
    conditional: PendingAction,
    server: MemoryServer,
    headers: dict[str, str],
) -> None:
    sender = headers.get("sender", MIRA)
    server.deliver(ALICE, letter(**headers))

    action = come_due()
    told = api.get(f"/actions/{action.pk}").json()
    come_due()  # nothing of it is left to do

    assert server.ledger == []
    assert (told["state"], told["error"]["code"]) == ("cancelled", "withdrawn_answered")
    assert told["answered_by"] == sender
    assert told["next"].startswith(f"{sender} answered first, so it was withdrawn")
    assert sender in reviewer.page(str(action.pk)).content.decode()


@NO_ANSWERS
def test_mail_that_is_no_answer_withdraws_nothing(
    conditional: PendingAction, server: MemoryServer, folder: str, headers: dict[str, str]
) -> None:
    server.deliver(ALICE, letter(In_Reply_To=ASKED, **headers), folder=folder)

    assert come_due().status == "succeeded"
    assert len(server.ledger) == 1


def test_thread_that_nobody_could_search_withdraws_nothing(
    conditional: PendingAction, server: MemoryServer
) -> None:
    for number in range(51):
        own = letter(sender=ALICE, id=f"<{number}@lovelace.example>", In_Reply_To=ASKED)
        server.deliver(ALICE, own, folder="sent")

    assert come_due().status == "pending"
    assert server.ledger == []


def test_address_of_a_newer_mail_needs_the_right_to_read(
    api: Api, alice: User, server: MemoryServer, mailbox: Mailbox
) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    message_id = api.tool("list_emails").json()["emails"][0]["id"]
    blind = make_api(alice, mailbox, name="blind", scopes=["mail:propose"])
    approve(propose(blind, message_id=message_id).json()["action"]["id"], alice)
    server.deliver(ALICE, letter(In_Reply_To=ASKED))

    action = come_due()

    shown = blind.get(f"/actions/{action.pk}").json()
    assert shown["returned"]["code"] == "thread_moved"
    assert MIRA not in str(shown)
    assert MIRA in action.current.preview["warnings"][-1]["text"]


def test_older_mail_of_the_conversation_withdraws_nothing(
    api: Api, alice: User, server: MemoryServer
) -> None:
    root = "<root@northwind.example>"
    aside = letter("ben@northwind.example", id="<aside@northwind.example>", References=root)
    server.deliver(ALICE, letter(id=root, date="Mon, 02 Nov 2026 09:00:00 +0000"))
    server.deliver(ALICE, aside)
    asked = letter(id=ASKED, References=root, date="Mon, 02 Nov 2026 12:00:00 +0000")
    server.deliver(ALICE, asked)
    approve(propose(api, unless_answered=True).json()["action"]["id"], alice)
    server.folder(ALICE, "inbox")[2].source = b""  # the question is gone, and nobody has written

    assert come_due().status == "pending"
    assert server.ledger == []


def test_answer_from_before_the_approval_withdraws_nothing(
    api: Api, alice: User, server: MemoryServer
) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    shown = propose(api, unless_answered=True).json()
    server.deliver(ALICE, letter(In_Reply_To=ASKED))
    server.folder(ALICE, "inbox")[1].arrived -= timedelta(hours=1)
    server.reachable = False  # so the approver is not told
    approve(shown["action"]["id"], alice)
    server.reachable = True
    PendingAction.objects.update(created_at=timezone.now() - timedelta(hours=2))

    assert come_due().status == "pending"


def test_answer_that_the_approver_knew_withdraws_nothing(
    api: Api, alice: User, server: MemoryServer
) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    message_id = api.tool("list_emails").json()["emails"][0]["id"]
    server.deliver(ALICE, letter(In_Reply_To=ASKED))
    shown = propose(api, message_id=message_id, unless_answered=True).json()
    approve(shown["action"]["id"], alice)

    assert "thread_moved" in [each["code"] for each in shown["warnings"]]
    assert come_due().status == "succeeded"


def test_condition_is_shown_and_part_of_the_digest(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    action = PendingAction.objects.get(pk=propose(api, unless_answered=True).json()["action"]["id"])

    assert action.current.payload["unless_answered"] is True
    assert "writes in the conversation first" in reviewer.page(str(action.pk)).content.decode()
    # An edit keeps it.
    fields = {"subject": "Re: Delivery on Thursday"}
    assert reviewer.decide(str(action.pk), "edit", **fields).status_code == 302
    action.refresh_from_db()
    assert action.current.payload["unless_answered"] is True


def test_condition_without_a_time_or_a_question_is_refused(api: Api, server: MemoryServer) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    draft = api.tool("create_draft", to=[MIRA], subject="Offer", body="Here it is.").json()
    later = (timezone.now() + timedelta(days=3)).isoformat()

    at_once = propose(api, unless_answered=True, send_at=None)
    new = api.tool("send_draft", draft_id=draft["id"], unless_answered=True, send_at=later)

    assert at_once.status_code == 422
    assert "unless_answered needs send_at" in at_once.content.decode()
    assert new.json()["errors"][0]["field"] == "unless_answered"


@pytest.mark.parametrize("conditional", [True, False])
@pytest.mark.parametrize(
    ("shown", "date"),
    [
        pytest.param(
            "Mon, 02 Nov 2026 11:00:00 +0000", "Mon, 02 Nov 2026 10:30:00 +0000", id="older"
        ),
        pytest.param(
            "Mon, 02 Nov 2099 10:00:00 +0000", "Mon, 02 Nov 2026 11:30:00 +0000", id="far"
        ),
    ],
)
def test_next_answer_is_noticed_whatever_its_date(
    api: Api, alice: User, server: MemoryServer, conditional: bool, shown: str, date: str
) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    message_id = api.tool("list_emails").json()["emails"][0]["id"]
    server.deliver(ALICE, letter(In_Reply_To=ASKED, date=shown))
    proposed = propose(api, message_id=message_id, unless_answered=conditional).json()
    assert "thread_moved" in [each["code"] for each in proposed["warnings"]]
    approve(proposed["action"]["id"], alice)
    server.folder(ALICE, "inbox")[1].arrived -= timedelta(hours=2)
    PendingAction.objects.update(approved_at=timezone.now() - timedelta(hours=1))
    next_one = letter(
        In_Reply_To=ASKED, id="<next@alps.example>", date=date, sender="jo@alps.example"
    )
    server.deliver(ALICE, next_one, folder="archive")  # by a filter

    action = come_due()

    assert server.ledger == []
    assert action.status == ("cancelled" if conditional else "pending")


def test_answer_that_is_moved_after_the_approval_is_no_news(
    api: Api, alice: User, server: MemoryServer
) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    message_id = api.tool("list_emails").json()["emails"][0]["id"]
    server.deliver(ALICE, letter(In_Reply_To=ASKED))
    newest = letter(In_Reply_To=ASKED, id="<n@b.example>", date="Mon, 02 Nov 2026 12:00:00 +0000")
    server.deliver(ALICE, newest)
    approve(propose(api, message_id=message_id).json()["action"]["id"], alice)
    server.folder(ALICE, "inbox")[2].source = b""

    assert come_due().status == "succeeded"


@pytest.mark.parametrize("conditional", [True, False])
def test_known_answer_hides_no_search_that_fails(
    api: Api, alice: User, server: MemoryServer, conditional: bool
) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    message_id = api.tool("list_emails").json()["emails"][0]["id"]
    server.deliver(ALICE, letter(In_Reply_To=ASKED, date="Mon, 02 Nov 2026 12:00:00 +0000"))
    proposed = propose(api, message_id=message_id, unless_answered=conditional).json()
    approve(proposed["action"]["id"], alice)
    filed = letter(In_Reply_To=ASKED, id="<n@a>", date="Mon, 02 Nov 2026 10:30:00 +0000")
    server.deliver(ALICE, filed, folder="archive")
    for number in range(51):
        own = letter(sender=ALICE, id=f"<{number}@lovelace.example>", In_Reply_To=ASKED)
        server.deliver(ALICE, own, folder="sent")

    action = come_due()

    assert (action.status, (action.returned or {})["code"]) == ("pending", "thread_unread")
    assert server.ledger == []


def test_search_that_fails_before_the_send_is_news(
    api: Api, alice: User, server: MemoryServer
) -> None:
    server.deliver(ALICE, letter(id=ASKED, date="Mon, 02 Nov 2026 10:00:00 +0000"))
    message_id = api.tool("list_emails").json()["emails"][0]["id"]
    for number in range(51):
        own = letter(sender=ALICE, id=f"<{number}@lovelace.example>", In_Reply_To=ASKED)
        server.deliver(ALICE, own, folder="sent")
    proposed = propose(api, message_id=message_id, unless_answered=True).json()
    assert "thread_unread" in [each["code"] for each in proposed["warnings"]]
    action = approve(proposed["action"]["id"], alice)

    action = come_due()
    assert (action.status, (action.returned or {})["code"]) == ("pending", "thread_unread")

    approve(action.pk, alice)
    assert (come_due().status, len(server.ledger)) == ("succeeded", 1)
