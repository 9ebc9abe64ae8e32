"""Approved answers that wait for their time, while the other side writes first."""

from datetime import timedelta
from email.message import EmailMessage

import pytest
from django.utils import timezone

from accounts.models import User
from approvals.models import PendingAction
from tests.approvals.conftest import approve
from tests.conftest import Api
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)

ALICE, MIRA = "alice@lovelace.example", "mira@northwind.example"
ASKED = "<asked@northwind.example>"


def letter(sender: str = MIRA, subject: str = "Delivery", **headers: str) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, ALICE, subject
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
    message_id = api.tool("list_emails").json()["emails"][0]["id"]
    moment = timezone.now() + timedelta(days=3)
    answer = api.tool(
        "reply_email",
        message_id=message_id,
        comment="On Thursday.",
        send_at=moment.isoformat(),
        confirm=True,
    )
    return approve(answer.json()["action"]["id"], alice)


def come_due() -> PendingAction:
    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    work()
    return PendingAction.objects.get()


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"In_Reply_To": ASKED}, id="in-reply-to"),
        pytest.param({"References": ASKED}, id="references"),
        pytest.param({"In_Reply_To": ASKED, "subject": "New offer"}, id="other-subject"),
    ],
)
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


@pytest.mark.parametrize(
    ("folder", "headers"),
    [
        pytest.param("sent", {"sender": "sales@lovelace.example"}, id="own"),
        pytest.param("inbox", {"Auto_Submitted": "auto-replied"}, id="automatic"),
        pytest.param("inbox", {"sender": "MAILER-DAEMON@lovelace.example"}, id="bounce"),
    ],
)
def test_mail_that_is_no_answer_holds_nothing_back(
    waiting: PendingAction, server: MemoryServer, folder: str, headers: dict[str, str]
) -> None:
    server.deliver(ALICE, letter(In_Reply_To=ASKED, **headers), folder=folder)

    assert come_due().status == "succeeded"
    assert len(server.ledger) == 1


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
