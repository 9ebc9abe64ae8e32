"""Messages for the contract, and their comparison with the mailbox."""

from collections.abc import Callable
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.policy import SMTP

import pytest

from tests.contract.conftest import Side
from tests.support.servers.sandbox import ADA, CHARLES
from tools.providers.base import Message
from tools.providers.errors import Refused

MESSAGE_ID = "<0123456789abcdef@lovelace.example>"
WIRE = SMTP.clone(cte_type="7bit")


def plain(
    number: int = 1,
    *,
    subject: str | None = None,
    sender: str = "Mira Holm <mira@northwind.example>",
    text: str = "",
) -> bytes:
    message = EmailMessage(policy=WIRE)
    message["From"] = sender
    message["To"] = ADA
    message["Subject"] = subject if subject is not None else f"Number {number}"
    message["Date"] = datetime(2026, 3, 1, 12, number % 60, tzinfo=UTC)
    message["Message-ID"] = f"<{number}@northwind.example>"
    message.set_content(text or f"This is number {number}.\n")
    return message.as_bytes()


def raw(*headers: str, body: bytes = b"hello\r\n") -> bytes:
    """Return a message as a careless program writes it: exactly these lines."""
    return "\r\n".join(headers).encode() + b"\r\n\r\n" + body


def newest(side: Side) -> Message:
    """Return the newest message of the inbox, found in the list and read."""
    page = side.ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    return side.ada.read_message(page.cards[0].id, body=True)


def subjects(
    side: Side, *, folder: str = "inbox", unread: bool | None = None, limit: int = 50
) -> list[str]:
    page = side.ada.list_messages(folder=folder, unread=unread, limit=limit, page_token=None)
    assert page.next_token is None
    return [card.subject for card in page.cards]


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value.code


def same_message(side: Side, found: bytes, source: bytes) -> None:
    """Assert that both are the same byte for byte after the trace headers.

    If a provider writes the bytes itself, compare their content.
    """
    if side.exact:
        assert found.partition(source)[1:] == (source, b"")
        return
    said = [message_from_bytes(each, policy=policy.default) for each in (found, source)]
    for header in ("To", "Cc", "Bcc", "Subject", "Message-ID"):
        assert said[0][header] == said[1][header]
    is_, should_be = (str(message.get_body(("plain",)).get_content()) for message in said)  # type: ignore[union-attr]
    assert is_.replace("\r\n", "\n") == should_be.replace("\r\n", "\n")


def letter(*, to: str = CHARLES) -> bytes:
    message = EmailMessage(policy=WIRE)
    message["From"] = ADA
    message["To"] = to
    message["Subject"] = "Übermorgen"
    message["Message-ID"] = MESSAGE_ID
    message.set_content(".a dot first\n..two\n.\n" + "long " * 400 + "\nñ\n")
    return message.as_bytes()
