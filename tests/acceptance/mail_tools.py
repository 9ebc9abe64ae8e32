"""Sending, answering and forwarding on Microsoft 365, for the tests of these tools."""

from typing import Any

import pytest

from accounts.models import Mailbox
from approvals.gate.load import read_action
from approvals.models import PendingAction
from tests.conftest import HELLO, Api, Reviewer
from tests.support.people.outlook import approved, letter
from tests.support.servers.graph import GraphServer
from tests.support.servers.graph_data import Hit
from tests.support.servers.sandbox import ADA
from tests.support.work import work

JO, SAM = "jo@northwind.example", "sam@northwind.example"
TOOLS = ("send_email", "reply_email", "forward_email")


@pytest.fixture
def seeds_way(mailbox: Mailbox) -> Mailbox:
    mailbox.scopes = ["Mail.Read", "Mail.Send"]
    mailbox.save()
    return mailbox


@pytest.fixture
def message_id(api: Api, graph: GraphServer) -> str:
    graph.deliver(ADA, letter(to=f"{ADA}, {JO}", Cc=SAM).as_bytes())
    return first_in(api, "inbox")


def first_in(api: Api, folder: str) -> str:
    return str(api.tool("list_emails", folder=folder, max_results=1).json()["emails"][0]["id"])


def asked(tool: str, message_id: str, **changes: Any) -> dict[str, Any]:
    """Return the arguments that a caller gives each tool."""
    given: dict[str, dict[str, Any]] = {
        "send_email": {**HELLO},
        "reply_email": {"message_id": message_id, "comment": "On Thursday."},
        "forward_email": {"message_id": message_id, "to": [JO], "comment": "For you."},
    }
    return {**given[tool], **changes}


def proposed(
    api: Api, reviewer: Reviewer, tool: str, message_id: str = "", **changes: Any
) -> PendingAction:
    """Propose, approve and execute an action, and return it."""
    action = approved(reviewer, api.tool(tool, **asked(tool, message_id, confirm=True, **changes)))
    work()
    return action


def only_send(graph: GraphServer) -> Hit:
    (hit,) = graph.sends()
    return hit


def approved_bytes(action: PendingAction) -> bytes:
    read = read_action(action.pk)
    assert read is not None
    approved = read.to_approved()
    return approved.blob(approved.payload["source_sha256"])
