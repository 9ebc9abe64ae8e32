"""The duties of every provider for mail of unusual shape: large, nested, sealed, and known by old ids."""

from email.message import EmailMessage

import pytest

from tests.contract.conftest import Side
from tests.contract.messages import WIRE, newest, raw
from tests.support.servers.sandbox import MIRA
from tools.mail.message.reading import READ_LIMIT
from tools.providers.messages import SOURCE_LIMIT


def mixed(*parts: str) -> bytes:
    """Return a message of these parts, each with its own headers."""
    body = "".join(f"--b\r\n{part}\r\n" for part in parts) + "--b--\r\n"
    return raw(
        f"From: {MIRA}",
        "Subject: s",
        "MIME-Version: 1.0",
        "Content-Type: multipart/mixed; boundary=b",
        body=body.encode(),
    )


TEXT = "Content-Type: text/plain\r\n\r\n"
FILE = "Content-Type: application/pdf\r\nContent-Disposition: attachment"


def test_texts_around_a_file_are_read_in_order(side: Side) -> None:
    side.deliver(mixed(f"{TEXT}before", f"{FILE}; filename=a.pdf\r\n\r\nx", f"{TEXT}after"))
    found = newest(side)
    assert found.text == "before\n\nafter"
    assert [info.name for info in found.attachments] == ["a.pdf"]


def test_attachment_names_are_safe_and_different(side: Side) -> None:
    names = ["../../etc/passwd", "a.pdf", "A.pdf", "con.pdf", "x" * 300 + ".pdf"]
    files = [f'{FILE}; filename="{name}"\r\n\r\nx' for name in names]
    side.deliver(mixed(TEXT, *files, f"{FILE}\r\n\r\ny"))
    found = newest(side)
    assert [info.name for info in found.attachments] == [
        "passwd",
        "a.pdf",
        "A-2.pdf",
        "_con.pdf",
        "x" * 116 + ".pdf",
        "attachment-6.pdf",
    ]
    assert [bool(info.original_name) for info in found.attachments] == [
        True,
        False,
        True,
        True,
        True,
        False,
    ]
    last = found.attachments[-1]
    info, content = side.ada.fetch_attachment(found.id, last.id, limit=10)
    assert (info.name, info.size, content) == ("attachment-6.pdf", 1, b"y")


def test_large_mail_is_read_without_its_files(side: Side) -> None:
    message = EmailMessage(policy=WIRE)
    message["From"] = MIRA
    message["Subject"] = "large"
    message.set_content("the body\n")
    message.add_alternative("<p>the body</p>\n", subtype="html")
    size = SOURCE_LIMIT + 10_000
    message.add_attachment(b"x" * size, maintype="application", subtype="pdf", filename="r.pdf")
    side.deliver(message.as_bytes())

    found = newest(side)

    assert "the body" in (found.text or found.html or "")
    (listed,) = found.attachments
    assert listed.name == "r.pdf"
    assert listed.size == size or (listed.size_is_estimate and abs(listed.size - size) < size / 50)
    info, content = side.ada.fetch_attachment(found.id, listed.id, limit=2 * size)
    assert (info.size, info.size_is_estimate, content) == (size, False, b"x" * size)


def test_text_over_the_limit_is_cut_with_a_note(side: Side) -> None:
    side.deliver(raw(f"From: {MIRA}", "Subject: s", body=b"word " * (READ_LIMIT // 4)))
    found = newest(side)
    if side.exact:  # Graph gives the body of a large mail in its JSON
        assert len(found.text or "") <= READ_LIMIT
        assert found.notes == ("The text was cut after 1,048,576 bytes.",)


def test_mail_inside_a_mail_is_read_with_its_headers(side: Side) -> None:
    inner = "From: Jo <jo@x.example>\r\nSubject: The plan\r\n\r\nWe meet at noon."
    side.deliver(mixed(f"{TEXT}See below.", f"Content-Type: message/rfc822\r\n\r\n{inner}"))
    found = newest(side)
    assert found.text == "See below."
    (shown,) = found.inner
    assert (shown.from_address, shown.subject, shown.text) == (
        "jo@x.example",
        "The plan",
        "We meet at noon.",
    )
    assert [info.name for info in found.attachments] == ["attachment-1.eml"]


@pytest.mark.parametrize("part", ["text/x-amp-html", "text/calendar; method=REQUEST"])
def test_other_form_of_the_text_is_no_attachment(side: Side, part: str) -> None:
    source = mixed(f"{TEXT}Come.", f"Content-Type: {part}\r\n\r\nBEGIN:VCALENDAR\r\nEND:VCALENDAR")
    side.deliver(source.replace(b"multipart/mixed", b"multipart/alternative"))
    page = side.ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    found = newest(side)
    assert (found.text, found.attachments, page.cards[0].attachments) == ("Come.", (), 0)
    assert found.kind == ("invitation" if "calendar" in part else "")
