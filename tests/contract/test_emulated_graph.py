"""Graph in an independent emulator: it shows errors that our code and our own server may share."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from accounts.infra import credentials
from accounts.models import Mailbox, Membership, Role, User
from tests.conftest import HELLO, Api, Reviewer
from tests.support.people.outlook import approved, state
from tests.support.servers.emulate import Emulator, emulate
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work

__all__ = ["emulate"]
pytestmark = [pytest.mark.django_db, pytest.mark.process, pytest.mark.long]


def message(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "user_email": ADA,
        "from": {"address": MIRA, "name": "Mira Holm"},
        "to_recipients": [{"address": ADA}],
        "subject": f"Order {number}",
        "body_content": f"<p>This is number {number}.</p>",
        "parent_folder_id": "inbox",
        "received_date_time": f"2026-03-01T12:0{number}:00Z",
        "is_read": number == 1,
        **changes,
    }


@pytest.fixture(scope="module")
def graph(emulate: list[str]) -> Iterator[Emulator]:
    with Emulator(
        emulate, "microsoft", {"messages": [message(1), message(2), message(3)]}, [ADA]
    ) as running:
        yield running


@pytest.fixture
def mailbox(alice: User, graph: Emulator, settings: Any) -> Mailbox:
    settings.GRAPH_BASE_URL = f"http://127.0.0.1:{graph.port}/v1.0"
    mailbox_id = uuid.uuid4()
    secrets = {"access_token": f"token-{ADA}", "expires_at": time.time() + 3600}
    mailbox = Mailbox.objects.create(
        id=mailbox_id,
        address=ADA,
        provider="microsoft",
        scopes=["Mail.ReadWrite", "Mail.Send"],
        credentials=credentials.encrypt(secrets, mailbox_id=mailbox_id),
    )
    Membership.objects.create(mailbox=mailbox, user=alice, role=Role.MANAGER)
    return mailbox


def subjects(api: Api, tool: str = "list_emails", **query: Any) -> list[str]:
    answer = api.tool(tool, **query)
    assert answer.status_code == 200, answer.content
    return [card["subject"] for card in answer.json()["emails"]]


def sent(graph: Emulator) -> list[dict[str, Any]]:
    """Return the messages in Sent, read without our code."""
    address = f"http://127.0.0.1:{graph.port}/v1.0/me/mailFolders/sentitems/messages?$top=50"
    rows = httpx2.get(address, headers={"Authorization": f"Bearer token-{ADA}"}).json()["value"]
    return [dict(row) for row in rows]


def test_mailbox_can_be_listed_searched_and_read(api: Api) -> None:
    """Expect the emulator's own messages beside ours."""
    assert ours(subjects(api)) == ["Order 3", "Order 2", "Order 1"]
    assert ours(subjects(api, unread=True)) == ["Order 3", "Order 2"]
    assert subjects(api, "search_emails", subject="order 2") == ["Order 2"]
    first = api.tool("search_emails", subject="order", max_results=2).json()
    rest = api.tool(
        "search_emails", subject="order", max_results=2, page_token=first["next_page_token"]
    ).json()
    assert [card["subject"] for card in (*first["emails"], *rest["emails"])] == [
        "Order 3",
        "Order 2",
        "Order 1",
    ]
    read = api.tool("read_email", message_id=first["emails"][0]["id"]).json()
    assert (read["from"], read["body"]) == (MIRA, "This is number 3.")
    assert {"inbox", "sent", "drafts"} <= {
        row.get("role") for row in api.tool("list_folders").json()["folders"]
    }


def ours(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith("Order")]


def test_reply_by_a_draft_is_sent_as_approved(
    api: Api, reviewer: Reviewer, graph: Emulator
) -> None:
    (card,) = api.tool("search_emails", subject="order 2").json()["emails"]
    asked = {"message_id": card["id"], "comment": "On Thursday."}
    action = approved(reviewer, api.tool("reply_email", **asked, confirm=True))
    work()
    assert state(action) == ("succeeded", None)
    (row,) = [row for row in sent(graph) if row["subject"] == "Re: Order 2"]
    assert "<p>On Thursday.</p>" in row["body"]["content"]
    assert [each["emailAddress"]["address"] for each in row["toRecipients"]] == [MIRA]


def test_approved_mail_leaves_by_verified_draft(
    api: Api, reviewer: Reviewer, graph: Emulator
) -> None:
    file = {"name": "a.txt", "type": "text/plain", "content_base64": "b25l"}
    asked = {
        **HELLO,
        "subject": "By a draft",
        "bcc": ["jo@northwind.example"],
        "attachments": [file],
    }
    action = approved(reviewer, api.tool("send_email", **asked, confirm=True))
    work()
    assert state(action) == ("succeeded", None)
    (row,) = [row for row in sent(graph) if row["subject"] == "By a draft"]
    assert [each["emailAddress"]["address"] for each in row["bccRecipients"]] == [
        "jo@northwind.example"
    ]
    assert [each["name"] for each in row["attachments"]] == ["a.txt"]


def test_mail_without_a_copy_is_accepted_in_one_call(
    api: Api, reviewer: Reviewer, mailbox: Mailbox
) -> None:
    asked = {**HELLO, "save_to_sent_items": False}
    action = approved(reviewer, api.tool("send_email", **asked, confirm=True))
    work()
    assert state(action) == ("succeeded", None)
