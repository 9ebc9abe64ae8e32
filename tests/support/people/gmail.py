"""A Gmail mailbox on our own server, connected as the command connects one."""

import time
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import pytest

from accounts.connect.connecting import connect_mailbox
from accounts.connect.google import WANTED
from accounts.models import Mailbox, User
from tests.support.servers.gmail import GmailServer
from tests.support.servers.gmail_data import Stored

ADA = "ada@lovelace.example"
CLIENT = {"client_id": "mailhub.apps.example", "client_secret": "canary-client-secret"}


@pytest.fixture
def gmail(settings: Any) -> Iterator[GmailServer]:
    with GmailServer() as server:
        server.clients[CLIENT["client_id"]] = CLIENT["client_secret"]
        settings.GMAIL_BASE_URL, settings.GOOGLE_TOKEN_URI = server.url, server.token_uri
        yield server


@pytest.fixture
def mailbox(alice: User, gmail: GmailServer) -> Mailbox:
    return connected(gmail, alice)


def connected(server: GmailServer, owner: User, address: str = ADA) -> Mailbox:
    secrets = CLIENT | {
        "refresh_token": server.signed_in(address),
        "access_token": server.access_token(address),
        "expires_at": time.time() + 3600,
        "scopes": list(WANTED),
    }
    return connect_mailbox(
        owner=owner,
        address=address,
        provider="gmail",
        secrets=secrets,
        scopes=["read", "draft", "send"],
    )


def letter(
    subject: str = "Number 1",
    *,
    sender: str = "Mira Holm <mira@northwind.example>",
    text: str = "Hello.\n",
    **headers: str,
) -> bytes:
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    message["From"] = sender
    message["To"] = ADA
    message["Subject"] = subject
    message["Date"] = headers.pop("Date", "Mon, 02 Nov 2026 10:00:00 +0000")
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    return message.as_bytes()


def arrived(server: GmailServer, count: int, **more: Any) -> list[Stored]:
    """Deliver so many messages to the inbox, and return them, newest first."""
    return [server.deliver(ADA, letter(f"Number {number + 1}"), **more) for number in range(count)][
        ::-1
    ]
