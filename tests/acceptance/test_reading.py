"""Reading a mailbox on a real IMAP server: folders, searches, threads, and the size of answers."""

from typing import Any

import pytest

from accounts.access import request_log
from tests.support.people.office import Office, letter, office

__all__ = ["office"]
pytestmark = pytest.mark.django_db(transaction=True)


def subjects(result: dict[str, Any]) -> list[str]:
    return [card["subject"] for card in result["emails"]]


def test_folders_are_named_with_role_and_counts(office: Office) -> None:
    office.receive(letter(to=office.ada))
    office.receive(letter(to=office.ada), unread=False)

    folders = {folder["name"]: folder for folder in office.tool("list_folders")["folders"]}

    assert folders["INBOX"] == {
        "id": "INBOX",
        "name": "INBOX",
        "role": "inbox",
        "unread": 1,
        "total": 2,
    }
    assert folders["Drafts"]["role"] == "drafts"
    assert folders["Sent Messages"]["role"] == "sent"


def test_read_needs_two_queries_at_most(
    office: Office, django_assert_max_num_queries: Any, settings: Any
) -> None:
    settings.MAILHUB_REQUEST_LOG_SECONDS = 30  # as in production, where a thread writes the log
    office.receive(letter(to=office.ada))
    office.tool("list_emails")  # the first use of the token is recorded, once a minute
    with django_assert_max_num_queries(2):
        assert office.tool("list_emails")["emails"]
    request_log.WRITER.flush()


@pytest.fixture
def full(office: Office) -> Office:
    """Return an inbox with mail to search for."""
    with_file = letter(to=office.ada, subject="Invoice with file", text="Please pay.\n")
    with_file.add_attachment(b"%PDF", "application", "pdf", filename="invoice.pdf")
    office.receive(
        letter(to=office.ada, subject="Invoice 1", text="Pay the first one.\n"), unread=False
    )
    office.receive(
        letter(
            to=office.ada,
            subject="Grüße aus Zürich",
            sender="Zoë <zoe@alps.example>",
            text="Schnee!\n",
        )
    )
    office.receive(with_file)
    return office


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param({"subject": "invoice"}, ["Invoice with file", "Invoice 1"], id="subject"),
        pytest.param({"from": "zoe@alps.example"}, ["Grüße aus Zürich"], id="from"),
        pytest.param({"text": "Schnee"}, ["Grüße aus Zürich"], id="text"),
        pytest.param({"subject": "Zürich"}, ["Grüße aus Zürich"], id="non-ascii"),
        pytest.param({"unread": False}, ["Invoice 1"], id="read"),
        pytest.param(
            {"unread": True, "subject": "invoice"}, ["Invoice with file"], id="unread-and-subject"
        ),
        pytest.param({"has_attachments": True}, ["Invoice with file"], id="with-attachments"),
        pytest.param(
            {"has_attachments": False, "subject": "invoice"},
            ["Invoice 1"],
            id="without-attachments",
        ),
        pytest.param(
            {"newer_than_days": 1},
            ["Invoice with file", "Grüße aus Zürich", "Invoice 1"],
            id="newer",
        ),
        pytest.param({"before": "2020-01-01"}, [], id="before"),
        pytest.param(
            {"since": "2020-01-01", "max_results": 1}, ["Invoice with file"], id="since-first-page"
        ),
        pytest.param({"query": "first pay"}, ["Invoice 1"], id="plain-words"),
        pytest.param(
            {"query": 'FROM mira UNSEEN SUBJECT "with file"'},
            ["Invoice with file"],
            id="search-keys",
        ),
        pytest.param(
            {"query": "OR FROM zoe SUBJECT 1"}, ["Grüße aus Zürich", "Invoice 1"], id="or"
        ),
        pytest.param({"query": "NOT (SUBJECT invoice)"}, ["Grüße aus Zürich"], id="not"),
        pytest.param(
            {"query": "SINCE 1-Jan-2020 SMALLER 100000 FROM zoe"},
            ["Grüße aus Zürich"],
            id="dates-sizes",
        ),
        pytest.param({"query": 'it"s'}, [], id="a-lone-quote"),
    ],
)
def test_search_finds_matches_newest_first(
    full: Office, asked: dict[str, Any], found: list[str]
) -> None:
    result = full.tool("search_emails", **asked)
    assert subjects(result) == found
    assert ("hint" in result) is (not found)


@pytest.mark.fault(51)
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"query": "FROM"}, id="key-without-value"),
        pytest.param({"query": "SINCE yesterday"}, id="no-date"),
        pytest.param({"query": "ALL FETCH 1 BODY"}, id="not-a-search-key"),
        pytest.param({"query": "FROM x\r\nA1 LOGOUT"}, id="newline"),
        pytest.param({"label_ids": ["INBOX"]}, id="labels-on-imap"),
        pytest.param({"folder": "No such folder"}, id="unknown-folder"),
        pytest.param({"page_token": "x"}, id="foreign-page-token"),
        pytest.param({"query": "(" * 30 + "ALL"}, id="nested-too-deep"),
        pytest.param({"since": "soon"}, id="no-day"),
        pytest.param({"colour": "red"}, id="unknown-parameter"),
    ],
)
def test_impossible_search_is_refused_with_a_next_step(
    office: Office, asked: dict[str, Any]
) -> None:
    problem = office.refused("search_emails", **asked)
    assert problem["code"] in ("invalid_input", "not_found")
    assert len(problem["detail"]) > 20


def test_search_pages_neither_overlap_nor_leave_gaps(office: Office) -> None:
    for number in range(7):
        office.receive(letter(to=office.ada, subject=f"Order {number}"))
        office.receive(letter(to=office.ada, subject="Noise"))

    seen, token = [], None
    while True:
        page = office.tool(
            "search_emails",
            subject="order",
            max_results=3,
            **({"page_token": token} if token else {}),
        )
        seen += subjects(page)
        token = page.get("next_page_token")
        if not token:
            break

    assert seen == [f"Order {number}" for number in range(6, -1, -1)]


def test_thread_is_found_by_references_across_folders(office: Office) -> None:
    first = letter(to=office.ada, subject="Crane", text="One.\n")
    message_id = office.receive(first)
    office.imap.deliver(
        office.ada,
        letter(
            to="mira@northwind.example",
            sender=office.ada,
            subject="Re: Crane",
            text="Two.\n",
            References=first["Message-ID"],
            In_Reply_To=first["Message-ID"],
            message_id="<two@lovelace.example>",
        ).as_bytes(),
        folder="Sent Messages",
    )
    third = letter(
        to=office.ada,
        subject="Re: Crane",
        text="Three.\n",
        References=f"{first['Message-ID']} <two@lovelace.example>",
    )
    third_id = office.receive(third)
    office.receive(letter(to=office.ada, subject="Crane", text="Another matter.\n"))

    for start in (message_id, third_id):
        messages = office.tool("read_thread", message_id=start)["messages"]
        assert [message["body"].strip() for message in messages] == ["One.", "Two.", "Three."]


def test_long_thread_is_cut_and_keeps_the_newest(office: Office) -> None:
    first = letter(to=office.ada, text="old " * 500)
    office.receive(first)
    newest = office.receive(
        letter(to=office.ada, text="new " * 500, References=first["Message-ID"])
    )

    thread = office.tool("read_thread", message_id=newest, max_chars=2100)

    assert thread["truncated"] is True
    assert len(thread["messages"][1]["body"]) > 1900
    assert sum(len(message["body"]) for message in thread["messages"]) <= 2100


@pytest.mark.goal("P5")
def test_cards_and_newsletter_stay_in_budget(office: Office) -> None:
    for number in range(10):
        sender = "A Rather Long Name of a Company <newsletter@long-company-name.example>"
        office.receive(
            letter(
                to=office.ada,
                subject=f"Number {number} " + "long " * 60,
                sender=sender,
                text="lorem " * 500,
            )
        )
    page = letter(to=office.ada)
    page.set_content(
        "<p>" + "offer <a href='https://x.example'>now</a> " * 5000 + "</p>", subtype="html"
    )

    listed = office.api.tool("list_emails", max_results=10)
    read = office.tool("read_email", message_id=office.receive(page))

    assert len(listed.content) <= 3_000
    assert all(card["snippet"] for card in listed.json()["emails"])
    assert len(read["body"]) <= 4_000
    assert read["truncated"]["next_offset"] == len(read["body"])
