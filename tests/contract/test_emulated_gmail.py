"""Gmail in an independent emulator: it shows errors that our code and our own server may share."""

import time
import uuid
from collections.abc import Iterator
from email import message_from_bytes, policy
from typing import Any

import httpx2
import pytest

from accounts.infra import credentials
from accounts.models import Mailbox, Membership, Role, User
from approvals.models import PendingAction
from tests.conftest import HELLO, Api, Reviewer
from tests.support.servers.emulate import Emulator, emulate
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work
from tools.providers.gmail import payload

__all__ = ["emulate"]
pytestmark = [pytest.mark.django_db, pytest.mark.process, pytest.mark.long]


def message(number: int) -> dict[str, Any]:
    return {
        "user_email": ADA,
        "from": f"Mira Holm <{MIRA}>",
        "to": ADA,
        "subject": f"Order {number}",
        "body_text": f"This is number {number}.",
        "label_ids": ["INBOX", *(["UNREAD"] if number > 1 else [])],
        "date": f"2026-03-01T12:0{number}:00Z",
        "message_id": f"<{number}@northwind.example>",
    }


@pytest.fixture(scope="module")
def google(emulate: list[str]) -> Iterator[Emulator]:
    with Emulator(
        emulate, "google", {"messages": [message(1), message(2), message(3)]}, [ADA]
    ) as running:
        yield running


@pytest.fixture
def mailbox(alice: User, google: Emulator, settings: Any) -> Mailbox:
    settings.GMAIL_BASE_URL = f"http://127.0.0.1:{google.port}"
    mailbox_id = uuid.uuid4()
    secrets = {"access_token": f"token-{ADA}", "expires_at": time.time() + 3600}
    mailbox = Mailbox.objects.create(
        id=mailbox_id,
        address=ADA,
        provider="gmail",
        scopes=["read", "draft", "send"],
        credentials=credentials.encrypt(secrets, mailbox_id=mailbox_id),
    )
    Membership.objects.create(mailbox=mailbox, user=alice, role=Role.MANAGER)
    return mailbox


def result(answer: Any) -> dict[str, Any]:
    assert answer.status_code in (200, 202), answer.content
    found: dict[str, Any] = answer.json()
    return found


def carried_out(reviewer: Reviewer, answer: Any) -> PendingAction:
    action_id = result(answer)["action"]["id"]
    assert reviewer.decide(action_id, "approve").status_code == 302
    work()
    return PendingAction.objects.get(pk=action_id)


def sent(google: Emulator, subject: str) -> list[Any]:
    """Return the messages in Sent with a subject, read without our code."""
    api, headers = (
        f"http://127.0.0.1:{google.port}/gmail/v1/users/me",
        {"Authorization": f"Bearer token-{ADA}"},
    )
    rows = (
        httpx2.get(f"{api}/messages?labelIds=SENT&maxResults=50", headers=headers)
        .json()
        .get("messages", [])
    )
    raws = [
        httpx2.get(f"{api}/messages/{row['id']}?format=raw", headers=headers).json()["raw"]
        for row in rows
    ]
    found = [message_from_bytes(payload.decode_base64(raw), policy=policy.default) for raw in raws]
    return [each for each in found if each["Subject"] == subject]


def test_mailbox_can_be_listed_searched_and_read(api: Api) -> None:
    """Expect the emulator's own messages beside ours."""
    listed = [
        row["subject"]
        for row in result(api.tool("list_emails"))["emails"]
        if row["subject"].startswith("Order")
    ]
    assert listed == ["Order 3", "Order 2", "Order 1"]
    first = result(api.tool("gmail_search_messages", query=f"from:{MIRA}", max_results=2))
    rest = result(
        api.tool(
            "gmail_search_messages",
            query=f"from:{MIRA}",
            max_results=2,
            page_token=first["next_page_token"],
        )
    )
    assert [row["subject"] for row in (*first["messages"], *rest["messages"])] == [
        "Order 3",
        "Order 2",
        "Order 1",
    ]
    got = result(api.tool("gmail_get_message", message_id=first["messages"][0]["id"]))
    assert got["headers"]["Subject"] == "Order 3"
    # The emulator's source has an empty line before the type of its text.
    assert got["body_text"].endswith("\n\nThis is number 3.")
    assert {"inbox", "sent", "drafts"} <= {
        row.get("role") for row in result(api.tool("list_folders"))["folders"]
    }
    read = result(api.tool("search_emails", subject="order", unread=False))["emails"]
    assert [row["subject"] for row in read] == ["Order 1"]


def test_draft_is_written_replaced_and_removed(api: Api) -> None:
    draft = result(api.tool("create_draft", to=[MIRA], subject="A draft", body="One."))
    other = result(
        api.tool("update_draft", draft_id=draft["id"], to=[MIRA], subject="A draft", body="Two.")
    )
    assert "Two." in result(api.tool("read_email", message_id=other["id"]))["body"]
    assert other["id"] in {row["id"] for row in result(api.tool("list_drafts"))["drafts"]}
    assert result(api.tool("delete_draft", draft_id=other["id"])) == {"deleted": True}


def test_approved_mail_leaves_by_verified_draft(
    api: Api, reviewer: Reviewer, google: Emulator
) -> None:
    file = {"name": "a.txt", "type": "text/plain", "content_base64": "b25l"}
    asked = {
        **HELLO,
        "subject": "By a draft",
        "bcc": ["jo@northwind.example"],
        "attachments": [file],
    }
    action = carried_out(reviewer, api.tool("send_email", **asked, confirm=True))
    assert (action.status, action.error) == ("succeeded", None)
    (found,) = sent(google, "By a draft")
    assert [part.get_filename() for part in found.iter_attachments()] == ["a.txt"]
    assert str(found["Message-ID"]) == action.message_id


def test_reply_stays_in_its_conversation(api: Api, reviewer: Reviewer, google: Emulator) -> None:
    row = next(
        row for row in result(api.tool("list_emails"))["emails"] if row["subject"] == "Order 2"
    )
    answer = api.tool("reply_email", message_id=row["id"], comment="On Thursday.", confirm=True)
    assert carried_out(reviewer, answer).status == "succeeded"
    (found,) = sent(google, "Re: Order 2")
    assert str(found["In-Reply-To"]) == "<2@northwind.example>"
    thread = result(api.tool("read_thread", thread_id=row["thread_id"]))
    assert len(thread["messages"]) == 2
