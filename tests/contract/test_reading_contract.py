"""The duties of every provider when it reads a message: texts, files, broken mail and ids."""

from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from tests.contract.conftest import Side
from tests.contract.messages import WIRE, newest, plain, raw, refused, subjects
from tests.support.servers.sandbox import ADA, CHARLES, MIRA


def test_message_is_read_with_its_headers(side: Side) -> None:
    message = EmailMessage(policy=WIRE)
    message["From"] = "Zoë <zoe@atelier-zoe.example>"
    message["To"] = f"Ada <{ADA}>, {CHARLES}"
    message["Cc"] = f"{MIRA}"
    message["Subject"] = "Grüße"
    message["Date"] = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    message.set_content("Bonjour,\nà bientôt.\n")
    side.deliver(message.as_bytes())

    found = newest(side)

    assert (found.from_name, found.from_address) == ("Zoë", "zoe@atelier-zoe.example")
    assert (found.to, found.cc) == ((ADA, CHARLES), (MIRA,))
    assert (found.subject, found.date) == ("Grüße", datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
    assert (found.text, found.html, found.attachments) == ("Bonjour,\nà bientôt.\n", None, ())


def test_message_without_body_has_headers_and_attachments(side: Side) -> None:
    side.deliver(plain())
    page = side.ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    found = side.ada.read_message(page.cards[0].id, body=False)
    assert (found.id, found.subject, found.text, found.html) == (
        page.cards[0].id,
        "Number 1",
        None,
        None,
    )


def test_html_is_read_with_or_without_text_part(side: Side) -> None:
    message = EmailMessage(policy=WIRE)
    message["From"] = MIRA
    message.set_content("<p>né</p>\n", subtype="html")
    side.deliver(message.as_bytes())
    assert (newest(side).text, newest(side).html) == (None, "<p>né</p>\n")

    both = EmailMessage(policy=WIRE)
    both["From"] = MIRA
    both.set_content("plain né\n")
    both.add_alternative("<p>rich né</p>\n", subtype="html")
    side.deliver(both.as_bytes())
    found = newest(side)
    # Servers differ on whether the line end before a boundary belongs to the part.
    assert (found.html or "").rstrip() == "<p>rich né</p>"
    assert (found.text or "").rstrip() == "plain né"


def test_text_in_nested_parts_is_found_and_files_are_not_text(side: Side) -> None:
    message = EmailMessage(policy=WIRE)
    message["From"] = MIRA
    message.set_content("the body\n")
    message.add_alternative("<p>the body <img src='cid:logo'></p>\n", subtype="html")
    message.get_payload()[1].add_related(  # type: ignore[index,union-attr]
        b"\x89PNG",
        maintype="image",
        subtype="png",
        cid="<logo>",
        filename="logo.png",
        disposition="inline",
    )
    message.add_attachment("not the body\n", filename="notes.txt")
    message.add_attachment(b"x" * 1000, maintype="application", subtype="pdf", filename="r.pdf")
    side.deliver(message.as_bytes())

    found = newest(side)

    assert (found.text or "").rstrip() == "the body"
    assert (found.html or "").rstrip() == "<p>the body <img src='cid:logo'></p>"
    assert [(part.name, part.type) for part in found.attachments] == [
        ("logo.png", "image/png"),
        ("notes.txt", "text/plain"),
        ("r.pdf", "application/pdf"),
    ]
    assert abs(found.attachments[2].size - 1000) < 30  # a server reports the encoded size
    assert len({part.id for part in found.attachments}) == 3


def test_forwarded_message_is_an_attachment_and_not_the_body(side: Side) -> None:
    inner = EmailMessage(policy=WIRE)
    inner["Subject"] = "inner"
    inner.set_content("inner text\n")
    outer = EmailMessage(policy=WIRE)
    outer["From"] = MIRA
    outer["Subject"] = "outer"
    outer.set_content("outer text\n")
    outer.add_attachment(inner, filename="inner.eml")
    side.deliver(outer.as_bytes())

    found = newest(side)

    assert (found.subject, (found.text or "").rstrip()) == ("outer", "outer text")
    assert [(part.name, part.type) for part in found.attachments] == [
        ("inner.eml", "message/rfc822")
    ]


@pytest.mark.parametrize(
    ("headers", "body", "text"),
    [
        pytest.param([], b"caf\xc3\xa9\r\n", "café\n", id="no-charset-but-utf-8"),
        pytest.param([], b"caf\xe9\r\n", "café\n", id="no-charset-but-latin-1"),
        pytest.param(["Content-Type: text/plain; charset=us-ascii"], b"caf\xc3\xa9\r\n", "café\n", id="not-ascii"),
        pytest.param(["Content-Type: text/plain; charset=utf-8"], b"caf\xe9\r\n", "café\n", id="not-utf-8"),
        pytest.param(["Content-Type: text/plain; charset=x-nonsense"], b"caf\xc3\xa9\r\n", "café\n", id="unknown"),
        pytest.param(["Content-Type: text/plain; charset=hex"], b"caf\xc3\xa9\r\n", "café\n", id="no-text-codec"),
        pytest.param(["Content-Type: text/plain; charset=undefined"], b"caf\xc3\xa9\r\n", "café\n", id="undefined"),
        pytest.param(["Content-Type: text/plain; charset=idna"], b"caf\xc3\xa9\r\n", "café\n", id="idna"),
        pytest.param(["Content-Type: text/plain; charset=punycode"], b"-caf\xe9-\r\n", "-café-\n", id="punycode"),
        pytest.param(["Content-Type: text/plain; charset=koi8-r"], b"\xcd\xc9\xd2\r\n", "мир\n", id="koi8-r"),
        pytest.param(
            ["Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: base64"],
            b"Y2Fmw6kK!!\r\n", "café\n", id="base64-with-rubbish",
        ),
    ],
)  # fmt: skip
def test_message_without_a_valid_charset_is_readable(
    side: Side, headers: list[str], body: bytes, text: str
) -> None:
    side.deliver(
        raw("From: m@northwind.example", "Subject: s", "MIME-Version: 1.0", *headers, body=body)
    )
    assert newest(side).text == text
    assert subjects(side) == ["s"]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(["Subject: s"], id="nothing-else"),
        pytest.param(["Subject: s", "Date: rubbish"], id="date-rubbish"),
        pytest.param(
            ["Subject: s", "Date: Fri, 31 Dec 9999 23:59:59 -1200"], id="date-after-the-last"
        ),
        pytest.param(
            ["Subject: s", "Date: Mon, 1 Jan 0001 00:00:00 +1200"], id="date-before-the-first"
        ),
        pytest.param(
            ["Subject: s", "Date: Mon, 1 Jan 2026 00:00:00 +99999999999999"], id="date-zone-huge"
        ),
        pytest.param(
            ["Subject: s", "Date: Mon, 1 Jan 99999999999 00:00:00 +0000"], id="date-year-huge"
        ),
        pytest.param(["Subject: s", "From: broken <", 'To: "open', "Cc: ;;,,"], id="addresses"),
        pytest.param(["Subject: s", "From: Zoë <z@x.example>"], id="raw-utf-8"),
        pytest.param(["Subject: s", "From: =?utf-8?b?!!!?= <z@x.example>"], id="encoded-word"),
        pytest.param(["Subject: s", "From: =?idna?q?=ff?= <z@x.example>"], id="encoded-word-idna"),
        pytest.param(["Subject: s", "From: =?x-no?q?a?= <z@x.example>"], id="encoded-word-unknown"),
        pytest.param(
            ["Subject: s", "Content-Type: ;;;=", "Content-Transfer-Encoding: ;"], id="content-type"
        ),
        pytest.param(
            ["Subject: s", "Content-Type: multipart/mixed; boundary=never"],
            id="multipart-without-parts",
        ),
        pytest.param(
            ["Subject: s", "Content-Type: multipart/mixed"], id="multipart-without-boundary"
        ),
    ],
)
def test_broken_headers_do_not_hide_the_rest(side: Side, headers: list[str]) -> None:
    side.deliver(plain(1))
    side.deliver(raw(*headers))
    side.deliver(plain(2))

    page = side.ada.list_messages(folder="inbox", unread=None, limit=10, page_token=None)

    subjects = [card.subject for card in page.cards]
    assert sorted(subjects) == ["Number 1", "Number 2", "s"]
    card = page.cards[subjects.index("s")]
    found = side.ada.read_message(card.id, body=True)
    assert found.subject == "s"
    for date in (card.date, found.date):
        assert date is None or date.astimezone(UTC)  # a date that can be represented


def test_header_control_characters_never_appear(side: Side) -> None:
    side.deliver(
        raw(
            "From: =?utf-8?q?Zo=C3=AB=0D=0ABcc=3A?= <zoe@x.example>",
            "Subject: =?utf-8?q?one=0D=0Atwo=00three=E2=80=A8four?=",
        )
    )
    found = newest(side)
    assert found.subject == "one two\ufffdthree four"
    assert found.from_name == "Zoë Bcc:"


# Ids


@pytest.mark.parametrize(
    "message_id", ["", "x", "inbox:0", "AAAA", "a\r\nX NOOP", "\u0663", "=" * 30, "é", "A" * 999]
)
def test_malformed_id_is_refused(side: Side, message_id: str) -> None:
    side.deliver(plain())
    assert refused(lambda: side.ada.read_message(message_id, body=True)) == "not_found"


def test_id_of_another_mailbox_is_refused(side: Side) -> None:
    for address in (ADA, CHARLES):
        side.deliver(plain(), address=address)
    (theirs,) = side.charles.list_messages(
        folder="inbox", unread=None, limit=1, page_token=None
    ).cards
    assert side.charles.read_message(theirs.id, body=True).subject == "Number 1"
    assert refused(lambda: side.ada.read_message(theirs.id, body=True)) == "not_found"


def test_ids_differ_between_messages_and_folders(side: Side) -> None:
    for folder in ("inbox", "sent"):
        for number in (1, 2):
            side.deliver(plain(number), folder=folder)
    ids = [
        card.id
        for folder in ("inbox", "sent")
        for card in side.ada.list_messages(
            folder=folder, unread=None, limit=9, page_token=None
        ).cards
    ]
    assert len(set(ids)) == 4
    assert [side.ada.read_message(one, body=False).subject for one in ids] == [
        "Number 2",
        "Number 1",
    ] * 2
