"""The message has the requested content, or it is not sent."""

import base64
import dataclasses
import re
from email import message_from_bytes, policy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.mail.html.clean import clean
from tools.mail.message.compose import (
    Attachment,
    ComposeError,
    Request,
    add_date,
    check,
    new_message,
)
from tools.mail.message.content import own_content
from tools.mail.text.addresses import header_text

ASK = Request(
    from_address="alice@lovelace.example",
    from_name="Alice",
    to=("mira@northwind.example",),
    subject="Hello",
    content=own_content("Hi", "text"),
)


def asked(**changes: object) -> Request:
    if "body" in changes:
        kind = changes.pop("body_type", "text")
        changes["content"] = own_content(
            str(changes.pop("body")), "html" if kind == "html" else "text"
        )
    return dataclasses.replace(ASK, **changes)  # type: ignore[arg-type]  # dataclasses knows the fields


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"subject": "Grüße an Zoë 日本語 " + "lang " * 40}, id="long-non-ascii-subject"
        ),
        pytest.param({"subject": "😀" * 255}, id="255-emoji"),
        pytest.param({"subject": "x" * 255}, id="subject-without-a-space"),
        pytest.param({"subject": "שלום"}, id="right-to-left"),
        pytest.param({"body": "From me\n.\n..\n\n\nend"}, id="dots-and-from"),
        pytest.param({"body": "a" * 5000}, id="one-long-line"),
        pytest.param({"body": "Zoë\n" * 2000}, id="non-ascii-body"),
        pytest.param({"body": "<p>Hi <b>you</b></p>", "body_type": "html"}, id="html"),
        pytest.param({"from_name": 'Ada "the" \\ Countess'}, id="name-with-quotes"),
        pytest.param({"from_name": "Zoë Ångström"}, id="non-ascii-name"),
        pytest.param(
            {"to": tuple(f"p{i}@northwind.example" for i in range(500))}, id="500-recipients"
        ),
        pytest.param(
            {"cc": ("b@x.example",), "bcc": ("c@x.example",), "importance": "high"},
            id="all-headers",
        ),
    ],
)
def test_generated_mail_reads_back_as_requested(changes: dict[str, object]) -> None:
    request = asked(**changes)

    message = new_message(request)

    parsed = message_from_bytes(message.source, policy=policy.default)
    assert str(parsed["Subject"]) == request.subject
    assert tuple(a.addr_spec for a in parsed["To"].addresses) == request.to
    assert max(len(line) for line in message.source.split(b"\r\n")) <= 998
    assert b"\n" not in message.source.replace(b"\r\n", b"")
    message.source.decode("ascii")


@pytest.mark.parametrize(
    "text",
    [
        "Re: commande n°\u00a012345 \u2013 100\u00a0€ confirmée\u00a0: ご請求書の件\u3000様 #4711 Angebot (Zürich)",
        "1.250,00\u00a0€ ! ! \u2013 Re: votre n°\u00a012345 \u2013 confirmée\u00a0: #4711 Réservation Angebot (Zürich)",
        "Sales, Northwind GmbH & Co KG (International Department for Very Long Names) Zürich",
        "Northwind, Sales Department of the very long company name and some more text here",
    ],
)
def test_subject_and_sender_are_written_for_strict_readers(text: str) -> None:
    """Read the headers as RFC 2047 has it: an encoded word has a blank, or an end, on both sides."""
    source = new_message(asked(subject=text, from_name=text)).source.decode()
    head = source.partition("\r\n\r\n")[0].replace("\r\n ", " ")
    found = dict(line.split(": ", 1) for line in head.splitlines())
    for written in (found["Subject"], found["From"].removesuffix(" <alice@lovelace.example>")):
        words = [re.fullmatch(r"=\?utf-8\?b\?([^?]+)\?=", each) for each in written.split(" ")]
        read = (
            "".join(base64.b64decode(word[1]).decode() for word in words if word)
            if all(words)
            else written.removeprefix('"').removesuffix('"')
        )
        assert read == text


@given(st.text(min_size=1, max_size=255), st.text(min_size=1, max_size=300))
def test_any_text_is_refused_or_sent_unchanged(subject: str, body: str) -> None:
    try:
        header_text(subject)
        body = body.replace("\r", "").replace("\0", "").encode("utf-8", "ignore").decode() or "x"
    except ValueError:
        return
    try:
        message = new_message(asked(subject=subject, body=body))
    except ComposeError:
        return
    parsed = message_from_bytes(message.source, policy=policy.default)
    assert str(parsed["Subject"]) == subject
    assert parsed["Bcc"] is None
    assert len(parsed["To"].addresses) == 1


def test_every_message_has_its_own_id_in_the_mailbox_domain() -> None:
    first, second = new_message(ASK), new_message(ASK)
    assert first.message_id != second.message_id
    assert first.message_id.endswith("@lovelace.example>")


@pytest.mark.fault(55)
def test_bcc_is_in_the_envelope_and_not_in_the_bytes() -> None:
    message = new_message(asked(bcc=("secret@x.example",)))
    assert "secret@x.example" in message.recipients
    assert b"secret" not in message.source
    assert b"Bcc: secret@x.example\r\n" in add_date(
        message.source, date="Mon, 02 Nov 2026 10:00:00 +0000", bcc=message.request.bcc
    )


@pytest.mark.fault(49)
@pytest.mark.parametrize(
    "tampered",
    [
        pytest.param(lambda s: b"Bcc: e@evil.example\r\n" + s, id="another-header"),
        pytest.param(
            lambda s: s.replace(b"mira@northwind", b"eve@northwind.evil"), id="another-recipient"
        ),
        pytest.param(
            lambda s: s.replace(b"To: ", b"To: eve@evil.example, ", 1), id="one-more-recipient"
        ),
        pytest.param(
            lambda s: s.replace(b"Subject: Hello", b"Subject: Other"), id="another-subject"
        ),
        pytest.param(lambda s: s.replace(b"\r\n\r\nHi", b"\r\n\r\nHo"), id="another-text"),
        pytest.param(
            lambda s: s.replace(b"Message-ID: <", b"Message-ID: <0"), id="another-message-id"
        ),
        pytest.param(
            lambda s: s.replace(b"To: ", b"To: x@x.example\r\nTo: ", 1), id="header-twice"
        ),
    ],
)
def test_different_bytes_are_rejected(tampered: object) -> None:
    message = new_message(ASK)
    with pytest.raises(ComposeError):
        check(dataclasses.replace(message, source=tampered(message.source)))  # type: ignore[operator]


@pytest.mark.parametrize("more", [b"X-More: 1", b"Content-Type: text/html"])
def test_part_with_another_header_is_rejected(more: bytes) -> None:
    message = new_message(
        asked(attachments=(Attachment(name="a.png", type="image/png", content=b"1"),))
    )
    source = message.source.replace(b"Content-Disposition:", more + b"\r\nContent-Disposition:")
    with pytest.raises(ComposeError):
        check(dataclasses.replace(message, source=source))


@pytest.mark.parametrize(
    "html",
    [
        "<script>alert(1)</script>",
        '<img src="x" onerror="alert(1)">',
        "<form action='https://evil.example'><input name=a></form>",
        "<iframe src='https://evil.example'></iframe>",
        "<meta http-equiv=refresh content='0;url=https://evil.example'>",
        "<base href='https://evil.example'>",
        "<link rel=stylesheet href='https://evil.example'>",
        "<style>@media print{p{display:none}}</style>",
        "<!-- a comment -->",
        "<p style='background:url(https://evil.example)'>x</p>",
        "<svg><script>alert(1)</script></svg>",
        "<a href='javascript:alert(1)'>x</a>",
    ],
)
def test_dangerous_html_is_removed_and_reported(html: str) -> None:
    message = new_message(asked(body=f"<p>Hello</p>{html}", body_type="html"))

    assert message.request.content.html is not None
    for part in (
        "script",
        "onerror",
        "form",
        "iframe",
        "meta",
        "base",
        "link",
        "@media",
        "<!--",
        "url(",
        "svg",
    ):
        assert part not in message.request.content.html
    assert message.request.content.content_removed


@pytest.mark.parametrize(
    "html",
    [
        "<p>Hello <b>you</b></p>",
        "<table><tr><td>1</td></tr></table>",
        "<html><head><title>x</title></head><body><p>Hi</p></body></html>",
        '<p style="color: red; margin: 0">Hi</p>',
        '<a href="https://lovelace.example">us</a><br><img src="https://lovelace.example/logo.png" alt="Logo">',
        "a &amp; b &lt; c<br/>",
        "<ul><li>one<li>two</ul>",
    ],
)
def test_honest_html_is_not_called_changed(html: str) -> None:
    assert not clean(html).removed
