"""The verdicts of a mailbox's own server on the sender, which every provider's reader gives."""

import pytest

from tests.contract.conftest import GmailSide, GraphSide, Side
from tests.contract.messages import raw
from tools.providers.messages import SOURCE_LIMIT

FAILS = {"spf": "pass", "dkim": "none", "dmarc": "fail"}
RESULTS = (
    "spf=pass (mailserver: 192.0.2.1 is permitted; dmarc=pass) smtp.mailfrom=bounce@evil.example;"
    "\r\n\tdkim=none (message not signed) header.d=none;"
    "\r\n dmarc=fail (p=REJECT) action=none header.from=northwind.example"
)
PASSES = "spf=pass smtp.mailfrom=a; dkim=pass header.d=a; dmarc=pass header.from=a"
FOREIGN = "Received: from a.evil.example (a [192.0.2.7]) by b.evil.example; Thu, 1 Jan 2026 00:00:00 +0000"


def names(side: Side) -> tuple[str, str, str]:
    """Return the beginning of the own verdicts, the own border server, and one inside."""
    match side:
        case GmailSide():
            return "mx.google.com; ", "mx.google.com", "2002:a05:7300:1234:b0"
        case GraphSide():
            border = "AM1PEPF0001.mail.protection.outlook.com"
            return "", border, "AM0PR01.eurprd01.prod.outlook.com"
    return "mx1.lovelace.example; ", "mx1.lovelace.example", "imap"


def verdicts(side: Side, *headers: str, size: int = 0, body: bool = True) -> dict[str, str]:
    """Deliver a mail with these headers at its top, and return what its reader says."""
    text = (b"x" * 70 + b"\r\n") * (size // 72 + 1)
    side.deliver(raw(*headers, "From: Mira <mira@northwind.example>", "Subject: s", body=text))
    page = side.ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    return dict(side.ada.read_message(page.cards[0].id, body=body).authentication)


def received(by: str, whence: str = "mx.evil.example") -> str:
    return (
        f"Received: from {whence} ({whence} [192.0.2.1])\r\n\tby {by} with ESMTPS; Thu, 1 Jan 2026"
    )


@pytest.mark.parametrize("body", [True, False], ids=["text", "headers"])
def test_verdicts_of_own_server_are_read(side: Side, body: bool) -> None:
    name, border, inside = names(side)
    own = f"Authentication-Results: {name}{RESULTS}"
    assert verdicts(side, received(inside, border), own, received(border), body=body) == FAILS
    assert verdicts(side, received(inside, border), received(border), own, body=body) == FAILS


def test_verdicts_of_large_mail_are_read(side: Side) -> None:
    name, border, _ = names(side)
    own = f"Authentication-Results: {name}{RESULTS}"
    assert verdicts(side, received(border), own, size=SOURCE_LIMIT) == FAILS


@pytest.mark.parametrize(
    "by", ["mx.evil.example", "lovelace.example.evil.example", "outlook.com.evil"]
)
def test_verdicts_with_foreign_name_say_nothing(side: Side, by: str) -> None:
    _, border, _ = names(side)
    assert verdicts(side, received(border), f"Authentication-Results: {by}; {RESULTS}") == {}


def test_verdict_below_own_one_is_ignored(side: Side) -> None:
    name, border, _ = names(side)
    own = f"Authentication-Results: {name}{RESULTS}"
    forged = f"Authentication-Results: {name}{PASSES}"
    assert verdicts(side, own, received(border), forged) == FAILS
    assert verdicts(side, received(border), own, forged, FOREIGN) == FAILS


def test_own_name_below_a_foreign_server_is_ignored(side: Side) -> None:
    name, border, _ = names(side)
    forged = f"Authentication-Results: {name}{PASSES}"
    assert verdicts(side, received(border), FOREIGN, forged) == {}


def test_mail_without_verdicts_has_none(side: Side) -> None:
    name, border, _ = names(side)
    assert verdicts(side, received(border)) == {}
    assert verdicts(side, f"Authentication-Results: {name or 'outlook.com; '}none") == {}
