"""A person approves every sent part: the plain text beside the HTML, and other shown parts."""

from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import pytest

from accounts.models import Mailbox
from tests.conftest import HELLO, Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)
CALENDAR = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Pay 4711\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"


def mail(sender: str, to: str, text: str, html: str | None = None) -> EmailMessage:
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    message["From"], message["To"], message["Subject"] = sender, to, "Invoice"
    message["Message-ID"] = "<m@evil.example>"
    message.set_content(text)
    if html is not None:
        message.add_alternative(html, subtype="html")
    return message


def proposed(api: Api, tool: str, **arguments: Any) -> tuple[str, dict[str, str]]:
    answer = api.tool(tool, confirm=True, **arguments)
    assert answer.status_code == 202, answer.content
    found = answer.json()
    return found["action"]["id"], {
        warning["code"]: warning["text"] for warning in found["warnings"]
    }


def pages(reviewer: Reviewer, action: str) -> tuple[str, str]:
    """Return the review page and the pane beside the queue."""
    pane = reviewer.client.get(f"/actions/{action}/peek/").content.decode()
    return reviewer.page(action).content.decode(), pane


def test_forward_with_two_texts_shows_both(
    api: Api, reviewer: Reviewer, server: MemoryServer, mailbox: Mailbox
) -> None:
    text, html = (
        "New bank details: please transfer to account 4711.\n",
        "<p>Our bank details: account 1234.</p>\n",
    )
    server.deliver(
        mailbox.address, mail("mallory@evil.example", mailbox.address, text, html).as_bytes()
    )
    (card,) = api.tool("list_emails").json()["emails"]

    action, warnings = proposed(
        api, "forward_email", message_id=card["id"], to=["mira@northwind.example"]
    )

    assert "alternatives_differ" in warnings
    for page in pages(reviewer, action):
        assert "<mark>4711</mark>" in page
        assert "The HTML and the text differ." in page
    reviewer.decide(action, "approve")
    work()
    assert b"4711" in server.ledger[0].source  # the forward is faithful, and it was shown


def test_draft_with_two_texts_shows_both(
    api: Api, reviewer: Reviewer, server: MemoryServer, mailbox: Mailbox
) -> None:
    draft = mail(
        mailbox.address,
        "alice@lovelace.example",
        "Please transfer to account 4711.\n",
        "<p>Lunch?</p>\n",
    )
    server.deliver(mailbox.address, draft.as_bytes(), folder="drafts")
    (listed,) = api.tool("list_drafts").json()["drafts"]

    action, warnings = proposed(api, "send_draft", draft_id=listed["id"])

    assert "alternatives_differ" in warnings
    assert all("4711" in page for page in pages(reviewer, action))


def test_reply_quotes_the_html_in_its_plain_text(
    api: Api, reviewer: Reviewer, server: MemoryServer, mailbox: Mailbox
) -> None:
    text, html = "New account 4711.\n", "<p>Our account is <b>1234</b>.</p>\n"
    server.deliver(
        mailbox.address, mail("mira@northwind.example", mailbox.address, text, html).as_bytes()
    )
    (card,) = api.tool("list_emails").json()["emails"]

    action, warnings = proposed(
        api, "reply_email", message_id=card["id"], comment="Thanks <b>& more</b>"
    )
    reviewer.decide(action, "approve")
    work()

    assert "alternatives_differ" not in warnings
    assert b"4711" not in server.ledger[0].source
    assert b"> Our account is 1234." in server.ledger[0].source


@pytest.mark.parametrize(
    "body",
    [
        "<h1>Hello</h1><ul><li>one</li></ul><p>a &lt; b &amp;lt; c</p>",
        "<p>Hi</p><pre>  x\n  y</pre>",
    ],
)
def test_plain_text_of_our_html_says_the_same(api: Api, body: str) -> None:
    answer = api.tool("send_email", **{**HELLO, "body": body, "body_type": "html"}).json()
    assert "alternatives_differ" not in [warning["code"] for warning in answer["warnings"]]


@pytest.mark.parametrize(
    ("type_", "name"), [("text/calendar", "invite.ics"), ("application/octet-stream", "mail.eml")]
)
def test_part_that_programs_show_automatically_is_a_risk(
    api: Api, server: MemoryServer, mailbox: Mailbox, type_: str, name: str
) -> None:
    original = mail("mira@northwind.example", mailbox.address, "See you\n")
    original.add_attachment(CALENDAR.encode(), *type_.split("/"), filename=name)
    server.deliver(mailbox.address, original.as_bytes())
    (card,) = api.tool("list_emails").json()["emails"]

    _, warnings = proposed(api, "forward_email", message_id=card["id"], to=["bob@lovelace.example"])

    assert name in warnings["hidden_part"]


@pytest.mark.parametrize("type_", ["calendar", "x-amp-html", "plain", "html"])
def test_draft_with_another_text_part_is_refused(
    api: Api, server: MemoryServer, mailbox: Mailbox, type_: str
) -> None:
    """Refuse it: if it were left out in silence, a person would approve less than they wrote."""
    draft = mail(mailbox.address, "bob@lovelace.example", "Lunch?\n", "<p>Lunch?</p>\n")
    draft.add_alternative(CALENDAR, subtype=type_)
    server.deliver(mailbox.address, draft.as_bytes(), folder="drafts")
    (listed,) = api.tool("list_drafts").json()["drafts"]

    answer = api.tool("send_draft", draft_id=listed["id"], confirm=True)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert f"text/{type_}" in answer.json()["detail"]


def test_named_part_among_related_parts_is_shown(
    api: Api, reviewer: Reviewer, server: MemoryServer, mailbox: Mailbox
) -> None:
    """Allow only one such part: programs differ in whether they show the first part or the one
    named as start.
    """
    source = (
        f"From: {mailbox.address}\r\nTo: bob@lovelace.example\r\nSubject: Lunch\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/related; boundary=b; start="<two>"\r\n\r\n'
        "--b\r\nContent-Type: text/html\r\nContent-ID: <one>\r\n\r\n<p>Pay 4711</p>\r\n"
        "--b\r\nContent-Type: text/html\r\nContent-ID: <two>\r\n\r\n<p>Lunch?</p>\r\n--b--\r\n"
    )
    server.deliver(mailbox.address, source.encode(), folder="drafts")
    (listed,) = api.tool("list_drafts").json()["drafts"]
    answer = api.tool("send_draft", draft_id=listed["id"], confirm=True)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
