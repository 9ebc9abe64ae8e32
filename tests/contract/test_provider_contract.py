"""The duties of every provider and the in-memory mail server, with the same assertions on each."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.policy import SMTP

import pytest

from tests.contract.conftest import EVERYBODY, Side
from tests.mailserver import ADA, CHARLES, MIRA
from tools.providers.base import Envelope, Handover, Message
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


# Lists


def test_list_is_newest_first(side: Side) -> None:
    for number in (1, 2, 3):
        side.deliver(plain(number))
    assert subjects(side) == ["Number 3", "Number 2", "Number 1"]


def test_empty_folder_is_an_empty_page(side: Side) -> None:
    for unread in (True, False, None):
        page = side.ada.list_messages(folder="inbox", unread=unread, limit=10, page_token=None)
        assert (page.cards, page.next_token) == ((), None)


def test_new_message_is_in_the_next_list(side: Side) -> None:
    assert subjects(side) == []
    side.deliver(plain(1))
    assert subjects(side) == ["Number 1"]
    side.deliver(plain(2))
    assert subjects(side) == ["Number 2", "Number 1"]


@pytest.mark.parametrize("unread", [None, True])
def test_pages_follow_each_other_without_overlap_or_gap(side: Side, unread: bool | None) -> None:
    for number in range(1, 8):
        side.deliver(plain(number), unread=True)
        side.deliver(plain(50), unread=False)
    seen: list[str] = []
    token: str | None = None
    sizes = []
    for _ in range(20):
        page = side.ada.list_messages(folder="inbox", unread=unread, limit=3, page_token=token)
        sizes.append(len(page.cards))
        seen += [card.subject for card in page.cards if card.subject != "Number 50"]
        side.deliver(plain(99))  # new arrivals shift nothing
        token = page.next_token
        if token is None:
            break
    assert seen == [f"Number {number}" for number in range(7, 0, -1)]
    assert sizes == ([3, 3, 1] if unread else [3, 3, 3, 3, 2])


def test_exactly_met_limit_leaves_no_next_page(side: Side) -> None:
    for number in (1, 2):
        side.deliver(plain(number))
    page = side.ada.list_messages(folder="inbox", unread=None, limit=2, page_token=None)
    assert (len(page.cards), page.next_token) == (2, None)


@pytest.mark.parametrize(
    "token",
    ["x", "-1", "1 2", "1\r\nX NOOP", "\u0663", "\u00b2", "9" * 40, "1:*"],
    ids=lambda token: ascii(token),
)
def test_unknown_page_token_is_refused(side: Side, token: str) -> None:
    side.deliver(plain())
    code = refused(
        lambda: side.ada.list_messages(folder="inbox", unread=None, limit=1, page_token=token)
    )
    assert code == "invalid_page_token"


@pytest.mark.parametrize(
    ("unread", "expected"),
    [(True, ["Number 2"]), (False, ["Number 1"]), (None, ["Number 2", "Number 1"])],
)
def test_list_can_be_limited_to_unread_or_read(
    side: Side, unread: bool | None, expected: list[str]
) -> None:
    side.deliver(plain(1), unread=False)
    side.deliver(plain(2), unread=True)
    assert subjects(side, unread=unread) == expected


def test_card_shows_unread_and_reading_does_not_change_it(side: Side) -> None:
    side.deliver(plain(1), unread=False)
    side.deliver(plain(2), unread=True)
    newest(side)
    page = side.ada.list_messages(folder="inbox", unread=None, limit=10, page_token=None)
    assert [card.unread for card in page.cards] == [True, False]


@pytest.mark.parametrize(
    "folder",
    ["Nowhere", "", "a\r\nX NOOP", 'quo"te', "back\\slash", "Überall", "*", "\u2028"],
    ids=ascii,
)
def test_unknown_folder_is_refused(side: Side, folder: str) -> None:
    assert (
        refused(
            lambda: side.ada.list_messages(folder=folder, unread=None, limit=1, page_token=None)
        )
        == "not_found"
    )


def test_role_is_an_empty_folder_or_unknown(side: Side) -> None:
    if "junk" in {folder.role for folder in side.ada.list_folders()}:
        assert subjects(side, folder="junk") == []
    else:
        assert refused(lambda: subjects(side, folder="junk")) == "not_found"


@pytest.mark.parametrize(
    ("asked", "role"),
    [
        ("inbox", "inbox"), ("INBOX", "inbox"), ("sent", "sent"), ("Sent", "sent"), ("sentitems", "sent"),
        ("SentItems", "sent"), ("drafts", "drafts"),
    ],
)  # fmt: skip
def test_folder_is_found_by_its_role(side: Side, asked: str, role: str) -> None:
    assert subjects(side, folder=asked) == []
    side.deliver(plain(7), folder=role)
    assert subjects(side, folder=asked) == ["Number 7"]


def test_card_shows_names_subject_snippet_and_attachments(side: Side) -> None:
    message = EmailMessage(policy=WIRE)
    message["From"] = "Zoë Müller <zoe@atelier-zoe.example>"
    message["Subject"] = "予定 · Žluťoučký"
    message["Date"] = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    message.set_content("Grüße   aus\n\nKöln\n")
    message.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="a.pdf")
    message.add_attachment("one\n", filename="b.txt")
    side.deliver(message.as_bytes())

    (card,) = side.ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None).cards

    assert (card.from_name, card.from_address) == ("Zoë Müller", "zoe@atelier-zoe.example")
    assert card.subject == "予定 · Žluťoučký"
    assert card.date == datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    assert card.snippet == "Grüße aus Köln"
    assert card.attachments == 2


def test_snippet_of_an_html_mail_is_text(side: Side) -> None:
    message = EmailMessage(policy=WIRE)
    message["From"] = MIRA
    message.set_content("<style>p{color:red}</style><p>Fish &amp; chips</p>\n", subtype="html")
    side.deliver(message.as_bytes())
    (card,) = side.ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None).cards
    assert card.snippet == "Fish & chips"


# Reading


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
    assert (found.text or "").rstrip() == ("plain né" if side.exact else "")


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

    assert (found.text or "").rstrip() == ("the body" if side.exact else "")
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

    assert [card.subject for card in page.cards] == ["Number 2", "s", "Number 1"]
    found = side.ada.read_message(page.cards[1].id, body=True)
    assert found.subject == "s"
    for date in (page.cards[1].date, found.date):
        assert date is None or date.astimezone(UTC)  # a date that can be represented


def test_header_control_characters_are_removed(side: Side) -> None:
    side.deliver(
        raw(
            "From: =?utf-8?q?Zo=C3=AB=0D=0ABcc=3A?= <zoe@x.example>",
            "Subject: =?utf-8?q?one=0D=0Atwo=00three=E2=80=A8four?=",
        )
    )
    found = newest(side)
    assert found.subject == "one two three four"
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


# Sending


def handover(wire_started: Callable[[], None] = lambda: None) -> Handover:
    return Handover(wire_started=wire_started)


def test_sent_message_reaches_the_whole_envelope_unchanged(side: Side) -> None:
    source = letter()
    # Mira is in no header: a Bcc
    side.ada.send(Envelope(sender=ADA, recipients=(CHARLES, MIRA), source=source), handover())
    for address, expected in ((CHARLES, 1), (MIRA, 1), (ADA, 0)):
        arrived = side.inbox_of(address)
        assert len(arrived) == expected
        for found in arrived:
            same_message(side, found, source)
            assert MIRA not in found.decode() or address == MIRA


def test_wire_started_is_called_once_before_the_send(side: Side) -> None:
    seen: list[list[int]] = []
    side.ada.send(
        Envelope(sender=ADA, recipients=(CHARLES,), source=letter()),
        handover(lambda: seen.append([len(side.inbox_of(address)) for address in EVERYBODY])),
    )
    assert seen == [[0, 0, 0]]
    assert len(side.inbox_of(CHARLES)) == 1


def test_nothing_is_sent_when_wire_started_raises(side: Side) -> None:
    class Lost(Exception):
        pass

    def lost() -> None:
        raise Lost

    with pytest.raises(Lost):
        side.ada.send(Envelope(sender=ADA, recipients=(CHARLES,), source=letter()), handover(lost))
    # A later mail is there; an earlier one would be there too.
    side.ada.send(Envelope(sender=ADA, recipients=(CHARLES,), source=letter()), handover())
    assert len(side.inbox_of(CHARLES)) == 1


def test_copy_in_sent_is_found_and_saved_once(side: Side) -> None:
    if side.keeps_copies:
        side.ada.save_sent_copy(letter(), MESSAGE_ID)
        assert side.sent() == []  # the provider made its own copy when it sent
        return
    assert not side.ada.find_sent(MESSAGE_ID)
    for _ in range(2):
        side.ada.save_sent_copy(letter(), MESSAGE_ID)
        assert side.ada.find_sent(MESSAGE_ID)
    assert side.sent() == [letter()]
    assert not side.ada.find_sent("<another@lovelace.example>")
    assert subjects(side, folder="sent", unread=True) == []


def test_existing_copy_in_sent_is_not_doubled(side: Side) -> None:
    side.deliver(letter(), folder="sent")
    assert side.ada.find_sent(MESSAGE_ID)
    side.ada.save_sent_copy(letter(), MESSAGE_ID)
    assert side.sent() == [letter()]


def test_mail_in_another_folder_or_mailbox_was_not_sent(side: Side) -> None:
    side.deliver(letter(), folder="inbox")
    side.deliver(letter(), folder="drafts")
    side.deliver(letter(), folder="sent", address=CHARLES)
    assert not side.ada.find_sent(MESSAGE_ID)


@pytest.mark.parametrize("message_id", ["", "<a@b>\r\nX NOOP", '<a"b@c>', "no brackets", "<a b@c>"])
def test_invalid_message_id_was_not_sent(side: Side, message_id: str) -> None:
    with suppress(Refused):
        assert not side.ada.find_sent(message_id)


def test_sign_in_can_be_tested(side: Side) -> None:
    side.ada.test()
