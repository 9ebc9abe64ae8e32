"""The duties of every provider and the in-memory mail server when they list folders and messages."""

from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from tests.contract.conftest import Side
from tests.contract.messages import WIRE, newest, plain, refused, subjects
from tests.support.servers.sandbox import MIRA

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
        side.deliver(plain(59))  # new arrivals shift nothing
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
