"""The other duties of every provider: folders, searches, threads, attachments, drafts, marks."""

from collections.abc import Callable
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import pytest

from tests.contract.conftest import GmailSide, ImapSide, MemorySide, ServerSide, Side
from tests.contract.messages import same_message
from tests.support.servers.sandbox import ADA
from tools.providers.base import NOT_A_DRAFT, SearchQuery
from tools.providers.errors import Refused, Unsupported

PDF = b"%PDF-1.4\n" + bytes(range(256))


def mail(number: int = 1, *, text: str = "Hello.\n", **headers: str) -> EmailMessage:
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    message["From"] = headers.pop("sender", "Mira Holm <mira@northwind.example>")
    message["To"] = headers.pop("to", ADA)
    message["Subject"] = headers.pop("subject", f"Number {number}")
    message["Date"] = f"Mon, 02 Nov 2026 10:{number:02}:00 +0000"
    message["Message-ID"] = headers.pop("message_id", f"<{number}@northwind.example>")
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    return message


def arrives(side: Side, message: EmailMessage, *, unread: bool = True) -> str:
    side.deliver(message.as_bytes(), unread=unread)
    return newest(side)


def newest(side: Side, folder: str = "inbox") -> str:
    return side.ada.list_messages(folder=folder, unread=None, limit=1, page_token=None).cards[0].id


def refused(call: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value


def test_folders_with_a_role_are_counted(side: Side) -> None:
    arrives(side, mail())
    arrives(side, mail(2), unread=False)

    folders = {folder.role: folder for folder in side.ada.list_folders()}

    assert {"inbox", "sent", "drafts"} <= set(folders)
    assert (folders["inbox"].unread, folders["inbox"].total) == (1, 2)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param(SearchQuery(), ["With file", "Grüße", "Invoice"], id="everything"),
        pytest.param(SearchQuery(subject="invoice"), ["Invoice"], id="subject"),
        pytest.param(SearchQuery(subject="Grüße"), ["Grüße"], id="non-ascii"),
        pytest.param(SearchQuery(from_="zoe@"), ["Grüße"], id="from"),
        pytest.param(SearchQuery(text="snow"), ["Grüße"], id="text"),
        pytest.param(SearchQuery(raw="snow"), ["Grüße"], id="plain-words"),
        pytest.param(SearchQuery(unread=False), ["Invoice"], id="read"),
        pytest.param(SearchQuery(has_attachments=True), ["With file"], id="attachments"),
        pytest.param(SearchQuery(subject="invoice", unread=True), [], id="both-must-hold"),
    ],
)
def test_search_finds_matches_of_all_conditions(
    side: Side, query: SearchQuery, found: list[str]
) -> None:
    arrives(side, mail(1, subject="Invoice"), unread=False)
    arrives(side, mail(2, subject="Grüße", sender="Zoë <zoe@alps.example>", text="snow\n"))
    with_file = mail(3, subject="With file")
    with_file.add_attachment(PDF, "application", "pdf", filename="a.pdf")
    arrives(side, with_file)

    page = side.ada.search(query, limit=10, page_token=None)

    assert [card.subject for card in page.cards] == found


ODD_TERMS = [
    "{10}", "{10+}", "50%", "a*b", "*", "%", "x}", "{", "(", ")", "[x]", '"', '"half', "back\\slash", "\\", "~", "''",
    "a\tb", "\x00\x07", "\u00a0", "\u200b", "\u2028", "\u202e", "\ud800", "\U000e0101", "é{3}", "OR", "NOT",
]  # fmt: skip


@pytest.mark.parametrize("field", ["raw", "text", "subject", "from_", "to"])
def test_odd_search_terms_work(side: Side, field: str) -> None:
    for number, term in enumerate(ODD_TERMS):
        printable = term.isprintable() and term.isascii() and not set(term) & set('"\\')
        if printable and field in ("text", "subject"):
            arrives(side, mail(number, subject=f"Odd {term} subject", text=f"odd {term} text\n"))
        given: dict[str, Any] = {field: term}
        query = SearchQuery(**given)
        if (
            field == "raw"
            and term in ("OR", "NOT", "(")
            and isinstance(side, ImapSide | ServerSide)
        ):
            continue  # search keys that match everything
        page = side.ada.search(query, limit=50, page_token=None)
        assert not printable or page.cards or field not in ("text", "subject"), repr(term)


def test_search_keys_in_groups_and_beyond_ascii_work(side: Side) -> None:
    if not isinstance(side, ImapSide | ServerSide):
        pytest.skip("SEARCH keys are IMAP's")
    for number, subject in enumerate(("Grüße {10}", "Order (2)", "Other")):
        arrives(side, mail(number, subject=subject))
    for query, subjects in [
        ("OR SUBJECT Grüße SUBJECT {10}", ["Grüße {10}"]),
        ("OR (SUBJECT Grüße SUBJECT {10}) (SUBJECT Order)", ["Order (2)", "Grüße {10}"]),
        ("NOT (SUBJECT Grüße SUBJECT {10})", ["Other", "Order (2)"]),
        ("(SUBJECT Grüße) SUBJECT {10}", ["Grüße {10}"]),
        ("OR () SUBJECT x", ["Other", "Order (2)", "Grüße {10}"]),
    ]:
        page = side.ada.search(SearchQuery(raw=query), limit=10, page_token=None)
        assert [card.subject for card in page.cards] == subjects, query


def test_header_named_in_a_query_is_searched(side: Side) -> None:
    """A model writes Gmail's operators at every provider, and would take an empty page for a fact."""
    if isinstance(side, MemorySide):
        pytest.skip("it has no language of its own")
    arrives(side, mail(1, subject="Order 7"))
    arrives(side, mail(2, subject="Noise", text="Where is my order?\n"))
    for query in ("subject:order", 'hello subject:"Order 7"'):
        page = side.ada.search(SearchQuery(raw=query), limit=5, page_token=None)
        assert [card.subject for card in page.cards] == ["Order 7"], query


def test_pages_of_a_search_follow_each_other(side: Side) -> None:
    for number in range(1, 6):
        arrives(side, mail(number, subject=f"Order {number}"))
        arrives(side, mail(number + 10, subject="Noise"))

    first = side.ada.search(SearchQuery(subject="order"), limit=3, page_token=None)
    second = side.ada.search(SearchQuery(subject="order"), limit=3, page_token=first.next_token)

    assert [card.subject for card in (*first.cards, *second.cards)] == [
        f"Order {n}" for n in (5, 4, 3, 2, 1)
    ]
    assert second.next_token is None


def test_labels_are_searched_or_refused_if_unsupported(side: Side) -> None:
    arrives(side, mail(1), unread=False)
    arrives(side, mail(2))
    if isinstance(side, GmailSide):
        page = side.ada.search(SearchQuery(label_ids=("INBOX", "UNREAD")), limit=5, page_token=None)
        assert [card.subject for card in page.cards] == ["Number 2"]
    else:
        with pytest.raises(Unsupported):
            side.ada.search(SearchQuery(label_ids=("INBOX",)), limit=1, page_token=None)


def test_thread_is_read_from_any_of_its_messages(side: Side) -> None:
    first = arrives(side, mail(1))
    side.deliver(mail(2, sender=ADA, References="<1@northwind.example>").as_bytes(), folder="sent")
    third = arrives(side, mail(3, References="<1@northwind.example> <2@northwind.example>"))
    arrives(side, mail(4))

    for start in (first, third):
        assert [message.subject for message in side.ada.read_thread(start, limit=10).messages] == [
            "Number 1",
            "Number 2",
            "Number 3",
        ]
    assert [message.subject for message in side.ada.read_thread(third, limit=2).messages] == [
        "Number 2",
        "Number 3",
    ]
    heads = side.ada.read_thread(third, limit=2, body=False).messages
    assert [message.message_id for message in heads] == [
        "<2@northwind.example>",
        "<3@northwind.example>",
    ]
    assert heads[0].from_address == ADA


def test_message_has_all_that_a_reply_needs(side: Side) -> None:
    message_id = arrives(
        side, mail(1, Reply_To="desk@northwind.example", References="<a@x.example> <b@x.example>")
    )

    message = side.ada.read_message(message_id, body=False)

    assert message.message_id == "<1@northwind.example>"
    assert message.references == ("<a@x.example>", "<b@x.example>")
    assert message.reply_to == ("desk@northwind.example",)


def test_attachment_is_byte_exact_and_within_its_limit(side: Side) -> None:
    message = mail()
    message.add_attachment(PDF, "application", "pdf", filename="Größe.pdf")
    message_id = arrives(side, message)
    (listed,) = side.ada.read_message(message_id, body=False).attachments

    info, content = side.ada.fetch_attachment(message_id, listed.id, limit=len(PDF))

    assert content == PDF
    assert (info.name, info.type, info.size) == ("Größe.pdf", "application/pdf", len(PDF))
    assert (
        refused(lambda: side.ada.fetch_attachment(message_id, listed.id, limit=len(PDF) - 1)).code
        == "too_large"
    )
    assert (
        refused(lambda: side.ada.fetch_attachment(message_id, "77", limit=10)).code == "not_found"
    )


def test_inline_picture_is_named_by_its_id(side: Side) -> None:
    message = mail()
    message.add_alternative('<img src="cid:photo">', subtype="html")
    page = message.get_payload(1)
    assert isinstance(page, EmailMessage)
    page.add_related(PDF, "image", "png", cid="<photo>", filename="p.png", disposition="inline")

    (listed,) = side.ada.read_message(arrives(side, message), body=False).attachments

    assert (listed.inline, listed.content_id) == (True, "photo")


def test_draft_is_saved_read_replaced_and_removed(side: Side) -> None:
    first = side.ada.save_draft(mail(1, message_id="<d1@lovelace.example>").as_bytes())
    same_message(
        side,
        side.ada.read_draft(first.id).source,
        mail(1, message_id="<d1@lovelace.example>").as_bytes(),
    )
    keep = side.ada.save_draft(mail(2, message_id="<d2@lovelace.example>").as_bytes())

    second = side.ada.save_draft(
        mail(3, message_id="<d3@lovelace.example>").as_bytes(), replaces=first.id
    )

    assert second.id != first.id
    assert refused(lambda: side.ada.read_draft(first.id)).code == "not_found"
    drafts = side.ada.list_messages(folder="drafts", unread=None, limit=10, page_token=None).cards
    assert [card.id for card in drafts] == [second.id, keep.id]
    side.ada.delete_draft(second.id)
    assert newest(side, "drafts") == keep.id


def test_message_that_is_no_draft_is_not_replaced_or_removed(side: Side) -> None:
    message_id = arrives(side, mail())
    for call in (
        lambda: side.ada.save_draft(mail(2).as_bytes(), replaces=message_id),
        lambda: side.ada.delete_draft(message_id),
        lambda: side.ada.read_draft(message_id),
    ):
        error = refused(call)
        assert (error.code, error.detail) == ("not_a_draft", NOT_A_DRAFT)
    assert len(side.inbox_of(ADA)) == 1
    assert (
        side.ada.list_messages(folder="drafts", unread=None, limit=10, page_token=None).cards == ()
    )


def test_number_names_the_message_that_a_list_shows_with_it(side: Side) -> None:
    message_id = arrives(side, mail())
    (card,) = side.ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None).cards
    if card.number is None:  # only IMAP has numbers; elsewhere no number names a message
        assert refused(lambda: side.ada.id_of_number(1, folder="inbox")).code == "not_found"
        return
    assert side.ada.id_of_number(card.number, folder="inbox") == message_id
    assert refused(lambda: side.ada.id_of_number(4711, folder="inbox")).code == "not_found"


@pytest.mark.parametrize("flag", ["answered", "forwarded"])
def test_flag_can_be_set_twice_and_changes_nothing_else(side: Side, flag: str) -> None:
    message_id = arrives(side, mail())
    for _ in range(2):
        side.ada.mark(message_id, "answered" if flag == "answered" else "forwarded")
    (card,) = side.ada.list_messages(folder="inbox", unread=None, limit=5, page_token=None).cards
    assert (card.id, card.unread) == (message_id, True)


@pytest.mark.fault(45)
@pytest.mark.parametrize("header", ["X-Microsoft-Original-Message-ID", "X-Original-Message-ID"])
def test_message_renamed_by_the_server_is_found_by_its_first_id(side: Side, header: str) -> None:
    ours = "<ours@lovelace.example>"
    renamed = mail(1, message_id="<theirs@mail.example>")
    renamed[header] = ours
    if not side.exact:
        return  # its own mark finds it: tests/faults/test_graph_road.py
    side.deliver(renamed.as_bytes(), folder="sent")

    assert side.ada.find_sent(ours) == "<theirs@mail.example>"
    side.ada.save_sent_copy(mail(2, message_id=ours).as_bytes(), ours)
    assert len(side.sent()) == 1
