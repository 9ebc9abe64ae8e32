"""Real mail, in files: listed, read, parsed and forwarded on every provider."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract.conftest import ServerSide, Side
from tools.mail.message.compose import Request, new_message
from tools.mail.message.content import build_forward
from tools.mail.message.page_text import make_readable
from tools.reading.originals import as_original, forwarded_attachments

CORPUS = Path(__file__).parent.parent / "corpus"


@dataclass(frozen=True, kw_only=True)
class Known:
    """The visible parts of a mail: subject, some of its text, the names of its attachments."""

    subject: str
    text: str = ""
    attachments: list[str] = field(default_factory=list)


KNOWN = {
    "nested-multipart": Known(
        subject="Nested",
        text="bottom of the nest",
        attachments=["dot.png", "list.pdf"],
    ),
    "no-charset": Known(subject="No charset", text="Grüße ohne Angabe"),
    "wrong-charset": Known(subject="Wrong charset", text="Straße in Latin-1"),
    "raw-8bit-headers": Known(subject="Grüße roh", text="Raw header bytes"),
    "control-characters": Known(subject="Pay\ufffdload", text="Bell: \ufffd."),
    "page-names-charset": Known(subject="A page in KOI8-R", text="Привет, Мария"),
    "old-japanese": Known(subject="請求書", text="請求書"),
    "winmail": Known(
        subject="From Outlook", text="beside the winmail.dat", attachments=["winmail.dat"]
    ),
    "smime-signed": Known(subject="Signed", text="A signed text."),
    "smime-enveloped": Known(subject="Enveloped", attachments=["smime.p7m"]),
    "pgp-encrypted": Known(subject="Encrypted", attachments=["encrypted.asc"]),
    "forwarded-as-attachment": Known(
        subject="Forwarded as", text="See the mail", attachments=["inner.eml"]
    ),
    "empty": Known(subject="Nothing in it"),
    "no-headers": Known(subject="", text="Only a body"),
    "no-date": Known(subject="No date", text="No date."),
    "odd-date": Known(subject="Odd date", text="Odd date."),
    "encoded-words": Known(subject="Grüße aus Zürich", text="Encoded words."),
    "rfc2231-name": Known(
        subject="A split name", text="Named in pieces.", attachments=["Größe.pdf"]
    ),
    "calendar": Known(subject="Invitation", text="Friday"),
    "thousand-parts": Known(subject="A thousand parts", text="Part 0"),
}


def test_corpus_files_and_expectations_match() -> None:
    assert {path.stem for path in CORPUS.glob("*.eml")} == set(KNOWN)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_mail_is_listed_read_and_forwarded(side: Side, name: str) -> None:
    known = KNOWN[name]
    if name == "raw-8bit-headers" and isinstance(side, ServerSide) and side.name == "cyrus":
        pytest.skip("Cyrus stores raw 8-bit headers with X for each such byte (munge8bit)")
    side.deliver((CORPUS / f"{name}.eml").read_bytes())

    (card,) = side.ada.list_messages(folder="inbox", unread=None, limit=5, page_token=None).cards
    message = side.ada.read_message(card.id, body=True)

    assert known.subject in message.subject
    assert bool(known.subject) is bool(message.subject)
    assert known.text in make_readable(message).text
    assert card.attachments == len(message.attachments) == len(known.attachments)
    assert sorted(info.name for info in message.attachments) == sorted(known.attachments)
    assert [each.id for each in side.ada.read_thread(card.id, limit=5).messages] == [card.id]
    original = as_original(message)
    forwarded = new_message(
        Request(
            kind="forward",
            from_address="ada@lovelace.example",
            to=("jo@northwind.example",),
            subject="Fwd",
            content=build_forward(None, original),
            attachments=forwarded_attachments(side.ada, message),
        )
    )
    assert len(forwarded.request.attachments) == len(known.attachments)
