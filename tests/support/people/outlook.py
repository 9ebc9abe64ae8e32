"""Ada's mailbox at Microsoft 365: our own Graph server, a program with a token, and a person who
approves.
"""

from collections.abc import Iterator
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import PendingAction, Rest
from tests.conftest import Reviewer
from tests.support.servers.graph import GraphServer, graph_mailbox
from tests.support.servers.graph_store import WIRE
from tests.support.servers.sandbox import ADA


@pytest.fixture
def graph(settings: Any) -> Iterator[GraphServer]:
    settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 30
    with GraphServer() as server:
        settings.GRAPH_BASE_URL = server.url
        yield server


@pytest.fixture
def mailbox(alice: User, graph: GraphServer) -> Mailbox:
    """Replace the mailbox on the in-memory server."""
    mailbox = graph_mailbox(graph, ADA)
    Membership.objects.create(mailbox=mailbox, user=alice, role=Role.MANAGER)
    return mailbox


def approved(reviewer: Reviewer, answer: Any) -> PendingAction:
    """Approve a proposal as a person, and return its action."""
    assert answer.status_code == 202, answer.content
    action = PendingAction.objects.get(pk=answer.json()["action"]["id"])
    assert reviewer.decide(str(action.pk), "approve").status_code == 302
    return action


def state(action: PendingAction) -> tuple[str, str | None]:
    action.refresh_from_db()
    return action.status, (action.error or {}).get("code")


def now_it_is_time() -> None:
    """Make waiting actions due a second ago: the database's clock may count in milliseconds."""
    past = timezone.now() - timedelta(seconds=1)
    Rest.objects.update(until=past)
    PendingAction.objects.filter(status="approved").update(not_before=past)


def letter(sender: str = "Mira Holm <mira@northwind.example>", **headers: str) -> EmailMessage:
    message = EmailMessage(policy=WIRE)
    message["From"] = sender
    message["To"] = headers.pop("to", ADA)
    message["Subject"] = headers.pop("subject", "Delivery on Thursday?")
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0000"
    message["Message-ID"] = "<question@northwind.example>"
    for name, value in headers.items():
        message[name] = value
    message.set_content("When do you come?\n")
    return message


__all__ = ["approved", "graph", "letter", "mailbox", "now_it_is_time", "state"]
