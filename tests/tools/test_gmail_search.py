"""gmail_search_messages: its requests to Gmail, its paging and its fields."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Api, problem_of
from tests.support.people.gmail import ADA, arrived, gmail, letter, mailbox
from tests.support.servers.gmail import GmailServer
from tests.tools.gmail_search import provider, search, waits
from tools.providers.gmail import GmailProvider

__all__ = ["gmail", "mailbox", "provider", "search", "waits"]
pytestmark = pytest.mark.django_db
OWN = 1  # list of mails from mailhub's senders: ids of no other mail are shown without a look at it


# Requests to Gmail


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        pytest.param(
            {"query": "from:test", "newer_than_days": 7},
            "from:test newer_than:7d",
            id="query-and-days",
        ),
        pytest.param(
            {"query": "subject:meeting", "label_ids": ["INBOX", "STARRED"]},
            "subject:meeting label:INBOX label:STARRED",
            id="query-and-labels",
        ),
        pytest.param({"query": "", "newer_than_days": 30}, "newer_than:30d", id="days-alone"),
        pytest.param(
            {"query": "  ", "label_ids": ["Own things/2026"]},
            "label:Own-things-2026",
            id="label-by-name",
        ),
        pytest.param(
            {"query": 'subject:"a b" OR -x'}, 'subject:"a b" OR -x', id="handed-on-as-it-is"
        ),
    ],
)
def test_query_and_filters_become_one_query(
    search: Callable[..., Any], gmail: GmailServer, arguments: dict[str, Any], asked: str
) -> None:
    search(**arguments)
    assert gmail.calls[-1].one("q") == asked


def test_own_label_can_be_named_by_its_id(search: Callable[..., Any], gmail: GmailServer) -> None:
    gmail.box(ADA).labels["Label_7"] = "Receipts"
    receipt = gmail.deliver(ADA, letter(), labels=("INBOX", "Label_7"))
    arrived(gmail, 1)
    for name in ("Label_7", "Receipts"):
        assert [row["id"] for row in search("", label_ids=[name])["messages"]] == [receipt.id]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        pytest.param({"query": ""}, "", id="empty-query"),
        pytest.param({"query": "  "}, "", id="blank-query"),
        pytest.param({}, "", id="no-query"),
        pytest.param({"query": "x", "max_results": 100}, "max_results", id="max-results-100"),
        pytest.param({"query": "x", "max_results": 0}, "max_results", id="max-results-0"),
        pytest.param({"query": "x", "newer_than_days": 0}, "newer_than_days", id="days-0"),
        pytest.param({"query": "x", "newer_than_days": "7"}, "newer_than_days", id="days-as-text"),
        pytest.param({"query": "x", "unknown": 1}, "unknown", id="unknown-field"),
    ],
)
def test_wrong_parameters_are_refused_before_gmail_is_asked(
    api: Api, gmail: GmailServer, arguments: dict[str, Any], field: str
) -> None:
    problem = problem_of(api.tool("gmail_search_messages", **arguments))
    assert (problem["code"], [error["field"] for error in problem["errors"]]) == (
        "invalid_input",
        [field],
    )
    assert gmail.calls == []


@pytest.mark.parametrize("label", ["a(b", 'a"b', "{}", "   ", "a\nb"])
def test_label_that_would_change_the_query_is_refused(
    api: Api, gmail: GmailServer, label: str
) -> None:
    problem = problem_of(api.tool("gmail_search_messages", query="x", label_ids=[label]))
    assert (problem["code"], gmail.count("messages.list")) == ("invalid_input", 0)


# Paging


def test_two_pages_are_put_together(search: Callable[..., Any], gmail: GmailServer) -> None:
    stored = arrived(gmail, 15)
    gmail.page_size = 10
    found = search(max_results=15)
    assert [row["id"] for row in found["messages"]] == [each.id for each in stored]
    assert gmail.count("messages.list") == 2 + OWN
    # It is full, so a token leads on, to nothing.
    rest = search(max_results=15, page_token=found["next_page_token"])
    assert rest == {"messages": []}
    assert gmail.count("messages.list") == 2 + OWN


def test_paging_stops_at_the_requested_number(
    search: Callable[..., Any], gmail: GmailServer
) -> None:
    stored = arrived(gmail, 25)
    gmail.page_size = 10
    first = search(max_results=15)
    assert [row["id"] for row in first["messages"]] == [each.id for each in stored[:15]]
    assert gmail.count("messages.list") == 2 + OWN
    rest = search(max_results=15, page_token=first["next_page_token"])
    assert [row["id"] for row in rest["messages"]] == [each.id for each in stored[15:]]


def test_page_with_more_than_requested_loses_nothing(
    search: Callable[..., Any], gmail: GmailServer
) -> None:
    stored = arrived(gmail, 30)
    gmail.page_size, gmail.lists_more_than_asked = 10, True
    first = search(max_results=15)
    rest = search(max_results=50, page_token=first["next_page_token"])
    seen = [row["id"] for row in (*first["messages"], *rest["messages"])]
    assert len(first["messages"]) == 15
    assert sorted(set(seen), reverse=True) == [each.id for each in stored]


def test_at_most_ten_pages_are_fetched(search: Callable[..., Any], gmail: GmailServer) -> None:
    stored = arrived(gmail, 30)
    gmail.page_size = 1
    found = search(max_results=50)
    assert [row["id"] for row in found["messages"]] == [each.id for each in stored[:10]]
    assert gmail.count("messages.list") == 10
    assert found["next_page_token"]


def test_mail_on_two_pages_counts_once_in_order(
    search: Callable[..., Any], gmail: GmailServer
) -> None:
    one, two, three, four = arrived(gmail, 4)
    gmail.page_size = 3

    def moves(call: Any) -> None:
        if call.one("pageToken"):  # the first page had some messages of the second already
            gmail.page_overlap = 2

    gmail.before["messages.list"] = moves
    found = search(max_results=10)
    assert [row["id"] for row in found["messages"]] == [one.id, two.id, three.id, four.id]


def test_foreign_page_token_is_refused(api: Api) -> None:
    problem = problem_of(api.tool("gmail_search_messages", query="x", page_token="made-up"))
    assert (problem["code"], "page token" in problem["detail"]) == ("invalid_input", True)


# Results


def test_row_has_ids_sender_subject_date_and_snippet(
    search: Callable[..., Any], gmail: GmailServer
) -> None:
    stored = gmail.deliver(
        ADA, letter("Grüße", sender="Zoë <zoe@alps.example>", text="It's <snow> & ice.\n")
    )
    assert search("snow") == {
        "messages": [
            {
                "id": stored.id,
                "thread_id": stored.thread,
                "from_email": "zoe@alps.example",
                "subject": "Grüße",
                "date": "2026-11-02T10:00:00Z",
                "snippet": "It's <snow> & ice.",
            }
        ]
    }


def test_empty_result_is_a_list_with_a_hint(search: Callable[..., Any]) -> None:
    found = search("from:nobody@nowhere.example")
    assert (found["messages"], "Try" in found["hint"]) == ([], True)


@pytest.mark.goal("P5", "P10")
def test_ten_rows_are_two_requests_and_3000_bytes(
    search: Callable[..., Any], api: Api, gmail: GmailServer
) -> None:
    for number in range(10):
        gmail.deliver(ADA, letter(f"{number} " + "subject é" * 30, text="long words é " * 40))
    answer = api.tool("gmail_search_messages", query="in:inbox")
    assert len(answer.json()["messages"]) == 10
    assert gmail.requests() == {"messages.list": 1, "batch": 1}
    assert len(answer.content) <= 3000


def test_only_the_first_ten_are_filled_in(search: Callable[..., Any], gmail: GmailServer) -> None:
    arrived(gmail, 20)
    rows = search(max_results=20)["messages"]
    assert sum(call.name == "messages.get" for call in gmail.calls) == 10
    assert [set(row) > {"id", "thread_id"} for row in rows] == [True] * 10 + [False] * 10
    assert gmail.requests() == {"messages.list": 1 + OWN, "batch": 1}


def test_rows_that_cannot_be_filled_in_keep_their_ids(
    search: Callable[..., Any], gmail: GmailServer
) -> None:
    stored = arrived(gmail, 10)
    broken = {each.id for each in stored[:3]}
    gmail.fail("messages.get", 500, times=None, only=lambda call: call.id in broken)
    rows = search()["messages"]
    assert rows[:3] == [{"id": each.id, "thread_id": each.thread} for each in stored[:3]]
    assert [row["subject"] for row in rows[3:]] == [
        f"Number {number}" for number in range(7, 0, -1)
    ]


def test_ids_remain_if_no_row_can_be_filled_in(provider: GmailProvider, gmail: GmailServer) -> None:
    stored = arrived(gmail, 2)
    gmail.fail("batch", 503, times=None)
    page = provider.reader.find("in:inbox", limit=10)
    assert [(row.id, row.subject) for row in page.rows] == [(each.id, None) for each in stored]
