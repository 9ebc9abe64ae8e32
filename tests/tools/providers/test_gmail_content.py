"""The comparison of a mail at Gmail with the approved one: any change is seen, a new form is not."""

import re
from collections.abc import Callable
from email.message import EmailMessage

import pytest

from tools.providers.base import Envelope
from tools.providers.gmail.content import content_of, values_by_name, write_source

Change = Callable[[bytes], bytes]
MARKER = "<1@lovelace.example>"


def approved() -> bytes:
    """Return the bytes that Gmail gets for a mail with a blind copy and a file."""
    message = EmailMessage()
    message["From"] = "Ada <ada@lovelace.example>"
    message["To"], message["Cc"] = "mira@northwind.example", "charles@lovelace.example"
    message["Subject"], message["Message-ID"] = "Hello", MARKER
    message.set_content("Hello Mira,\r\nuntil Thursday.\r\n")
    message.add_attachment(b"%PDF-", "application", "pdf", filename="a.pdf")
    hidden = "hidden@copy.example"
    recipients = ("mira@northwind.example", "charles@lovelace.example", hidden)
    envelope = Envelope(
        sender="ada@lovelace.example",
        recipients=recipients,
        source=message.as_bytes().replace(b"\n", b"\r\n").replace(b"\r\r", b"\r"),
    )
    return write_source(envelope, MARKER)


def swap(old: bytes, new: bytes) -> Change:
    def change(source: bytes) -> bytes:
        assert old in source
        return source.replace(old, new)

    return change


def add(header: bytes) -> Change:
    return lambda source: header + b"\r\n" + source


# Each change, and the names under which people read about it; the rest is not shown to recipients.
CHANGES: dict[str, tuple[Change, set[str]]] = {
    "extra bcc": (add(b"Bcc: spy@evil.example"), {"recipients"}),
    "lost bcc": (swap(b"Bcc: hidden@copy.example\r\n", b""), {"recipients"}),
    "changed recipient": (swap(b"mira@", b"mirra@"), {"recipients"}),
    "recipient moved to Bcc": (swap(b"Cc: ", b"Bcc: "), set()),
    "doubled recipient": (add(b"Bcc: mira@northwind.example"), {"recipients"}),
    "swapped attachment": (swap(b"JVBERi0=", b"JVBERi4="), {"content"}),
    "renamed attachment": (swap(b"a.pdf", b"b.exe"), {"content"}),
    "attachment of another type": (swap(b"application/pdf", b"text/html"), {"content"}),
    "attachment shown inline": (swap(b"attachment;", b"inline;"), {"content"}),
    "changed text": (swap(b"Thursday", b"Tuesday"), {"content"}),
    "changed subject": (swap(b"Subject: Hello", b"Subject: Hallo"), {"subject"}),
    "reply-to": (add(b"Reply-To: spy@evil.example"), set()),
    "another conversation": (add(b"In-Reply-To: <other@x.example>"), set()),
    "changed sender": (swap(b"<ada@", b"<adam@"), {"from"}),
    "lost mark": (lambda source: re.sub(rb"X-Mailhub-Mark: .*\r\n", b"", source), set()),
    "changed mark": (swap(b"X-Mailhub-Mark: ", b"X-Mailhub-Mark: 0"), set()),
}


@pytest.mark.fault(38)
def test_each_change_of_an_approved_mail_is_seen() -> None:
    source = approved()
    shown = values_by_name(source)
    wrong = {}
    for name, (change, said) in CHANGES.items():
        changed = change(source)
        values = values_by_name(changed)
        found = {each for each in shown if values[each] != shown[each]}
        if content_of(changed) == content_of(source) or found != said:
            wrong[name] = found
    assert wrong == {}


def test_another_form_of_the_same_mail_is_no_change() -> None:
    source = approved()
    for change in (
        add(b"Received: by 10.0.0.1"),
        swap(b"Message-ID: <1@lovelace.example>", b"Message-ID: <CA1@mail.gmail.com>"),
        swap(b"Subject: Hello", b"Subject:\r\n Hello"),
        swap(b"until Thursday.\r\n", b"until Thursday.\n"),
    ):
        changed = change(source)
        assert changed != source
        assert content_of(changed) == content_of(source)
        assert values_by_name(changed) == values_by_name(source)
