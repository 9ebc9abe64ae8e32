"""The comparison of a draft at Microsoft 365 with the approved mail: any change is named, a new
form of the same mail is not.
"""

from collections.abc import Callable
from email.message import EmailMessage
from hashlib import sha256
from typing import Any

import pytest

from tools.providers.graph.outgoing import Outgoing, differences, leads_elsewhere, parse_outgoing

Read = dict[str, Any]
Change = Callable[[Read], object]
PDF = b"%PDF-"
HTML = '<p>Until Thursday, <a href="https://good.example/">here</a></p>'
ADA = {"emailAddress": {"address": "ada@lovelace.example"}}
SPY = {"emailAddress": {"address": "spy@evil.example"}}


def approved(html: str = "") -> Outgoing:
    """Return a mail with a blind copy and a file."""
    message = EmailMessage()
    message["To"], message["Cc"] = "mira@northwind.example", "charles@lovelace.example"
    message["Subject"] = "Hello"
    message.set_content("Until Thursday.\n")
    if html:
        message.set_content(html, subtype="html")
    message.add_attachment(PDF, "application", "pdf", filename="a.pdf")
    hidden = "hidden@copy.example"
    return parse_outgoing(
        message.as_bytes(),
        recipients=("mira@northwind.example", "charles@lovelace.example", hidden),
    )


def stored(outgoing: Outgoing) -> Read:
    """Return the message as Exchange gives it back."""
    read: Read = outgoing.as_json()
    assert [each["emailAddress"]["address"] for each in read["bccRecipients"]] == [
        "hidden@copy.example"
    ]
    return read


def replace_content(old: str, new: str) -> Change:
    def change(read: Read) -> None:
        assert old in read["body"]["content"]
        read["body"]["content"] = read["body"]["content"].replace(old, new)

    return change


CHANGES: dict[str, tuple[Change, list[str]]] = {
    "extra recipient": (lambda read: read["toRecipients"].append(SPY), ["to"]),
    "lost recipient": (lambda read: read["toRecipients"].pop(), ["to"]),
    "changed copy": (lambda read: read.update(ccRecipients=[SPY]), ["cc"]),
    "extra bcc": (lambda read: read["bccRecipients"].append(SPY), ["bcc"]),
    "lost bcc": (lambda read: read.pop("bccRecipients"), ["bcc"]),
    "doubled recipient": (lambda read: read["toRecipients"].extend(read["toRecipients"]), ["to"]),
    "sent as another": (lambda read: read.update({"from": SPY}), ["from"]),
    "sent on behalf": (lambda read: read.update({"from": SPY, "sender": ADA}), ["from"]),
    "alias": (lambda read: read.update({"from": ADA, "sender": ADA}), []),
    "answers to another": (lambda read: read.update(replyTo=[SPY]), ["reply_to"]),
    "receipt": (lambda read: read.update(isReadReceiptRequested=True), ["receipts"]),
    "changed subject": (lambda read: read.update(subject="Hallo"), ["subject"]),
    "changed importance": (lambda read: read.update(importance="high"), ["importance"]),
    "changed text": (replace_content("Thursday", "Friday"), ["body"]),
    "lost text": (lambda read: read.pop("body"), ["body"]),
}
IN_TEXT: dict[str, tuple[Change, list[str]]] = {
    "text that became HTML": (
        lambda read: read.update(
            body={"contentType": "html", "content": "<p>Until Thursday.</p>"}
        ),
        ["body"],
    ),
    "other line ends": (lambda read: read["body"].update(content="Until Thursday.\r\n\r\n"), []),
}  # fmt: skip
IN_HTML: dict[str, tuple[Change, list[str]]] = {
    "changed link": (replace_content("good.example", "evil.example"), ["body"]),
    "extra picture": (replace_content("</p>", '</p><img src="https://evil.example/">'), ["body"]),
    "other mark-up": (
        lambda read: read["body"].update(
            contentType="html", content=f"<html><body>\r\n<div>{HTML}</div>\r\n</body></html>"
        ),
        [],
    ),
}


@pytest.mark.fault(38)
@pytest.mark.parametrize(("html", "changes"), [("", CHANGES | IN_TEXT), (HTML, CHANGES | IN_HTML)])
def test_each_change_of_an_approved_mail_is_named(
    html: str, changes: dict[str, tuple[Change, list[str]]]
) -> None:
    outgoing = approved(html)
    files = [("a.pdf", sha256(PDF).hexdigest())]
    assert differences(outgoing, stored(outgoing), files) == []
    wrong = {}
    for name, (change, said) in changes.items():
        read = stored(outgoing)
        change(read)
        if (found := differences(outgoing, read, files)) != said:
            wrong[name] = found
    assert wrong == {}


@pytest.mark.fault(38)
def test_changed_attachment_is_named() -> None:
    outgoing, digest = approved(), sha256(PDF).hexdigest()
    for files in ([], [("a.pdf", "0" * 64)], [("b.exe", digest)], [("a.pdf", digest)] * 2):
        assert differences(outgoing, stored(outgoing), files) == ["attachments"], files


@pytest.mark.fault(38)
def test_link_made_of_a_text_leads_only_where_it_says() -> None:
    text = "See https://good.example/?x=1 or ask mira@northwind.example"
    for html, leads in (
        ('<a href="https://good.example/?x=1">https://good.example/?x=1</a>', False),
        ('<a href="mailto:mira@northwind.example">mira@northwind.example</a>', False),
        ("no link", False),
        ('<a href="https://evil.example/">https://good.example/?x=1</a>', True),
        ('<img src="https://evil.example/">', True),
    ):
        assert leads_elsewhere(html, text) is leads, html
