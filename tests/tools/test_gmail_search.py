"""gmail_search_messages: its requests to Gmail, its paging, its fields, and its errors."""

from collections.abc import Callable
from typing import Any

import pytest

from accounts.models import Mailbox, User
from tests.conftest import Api, make_api, make_mailbox, problem_of
from tests.gmailbox import ADA, arrived, connected, gmail, letter
from tests.gmailserver import GmailServer
from tools.providers.errors import Refused, TokenRefused, Unavailable
from tools.providers.gmail import GmailProvider, metrics
from tools.providers.gmail.client import GmailClient
from tools.providers.memory import MemoryServer

__all__ = ["gmail"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def mailbox(alice: User, gmail: GmailServer) -> Mailbox:
    return connected(gmail, alice)


@pytest.fixture
def api(alice: User, mailbox: Mailbox) -> Api:
    return make_api(alice, mailbox)


@pytest.fixture
def search(api: Api) -> Callable[..., dict[str, Any]]:
    def search(query: str = "in:inbox", **arguments: Any) -> dict[str, Any]:
        answer = api.tool("gmail_search_messages", query=query, **arguments)
        assert answer.status_code == 200, answer.content
        result: dict[str, Any] = answer.json()
        return result

    return search


class Waits(list[float]):
    """A clock that only records the waiting times."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def provider(gmail: GmailServer, waits: Waits) -> GmailProvider:
    token = gmail.access_token(ADA)
    client = GmailClient(
        token=lambda _: token, key=ADA, base_url=gmail.url, answer_seconds=10, sleep=waits
    )
    return GmailProvider(client, address=ADA)


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
    assert "next_page_token" not in found
    assert gmail.count("messages.list") == 2


def test_paging_stops_at_the_requested_number(
    search: Callable[..., Any], gmail: GmailServer
) -> None:
    stored = arrived(gmail, 25)
    gmail.page_size = 10
    first = search(max_results=15)
    assert [row["id"] for row in first["messages"]] == [each.id for each in stored[:15]]
    assert gmail.count("messages.list") == 2
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
    assert gmail.requests() == {"messages.list": 1, "batch": 1}


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
    page = provider.find("in:inbox", limit=10)
    assert [(row.id, row.subject) for row in page.rows] == [(each.id, None) for each in stored]


# Retries and errors


def test_429_is_retried_after_a_second(
    provider: GmailProvider, gmail: GmailServer, waits: Waits
) -> None:
    arrived(gmail, 1)
    gmail.fail("messages.list", 429)
    assert len(provider.find("in:inbox", limit=10).rows) == 1
    assert (waits, gmail.count("messages.list")) == ([1.0], 2)


@pytest.mark.parametrize(
    ("status", "reason", "expected", "code", "pauses"),
    [
        pytest.param(429, "", [1.0, 2.0, 4.0], "rate_limited", True, id="429"),
        pytest.param(
            403, "rateLimitExceeded", [1.0, 2.0, 4.0], "rate_limited", True, id="403-rate-limit"
        ),
        pytest.param(
            403,
            "userRateLimitExceeded",
            [1.0, 2.0, 4.0],
            "rate_limited",
            True,
            id="403-user-rate-limit",
        ),
        pytest.param(503, "", [1.0, 2.0], "provider_error", False, id="503"),
        pytest.param(500, "", [1.0, 2.0], "provider_error", False, id="500"),
        pytest.param(0, "", [1.0, 2.0], "connection_lost", False, id="reset"),
    ],
)
def test_lasting_error_ends_after_the_waits(
    provider: GmailProvider,
    gmail: GmailServer,
    waits: Waits,
    status: int,
    reason: str,
    expected: list[float],
    code: str,
    pauses: bool,
) -> None:
    gmail.fail("messages.list", status, reason, times=None)
    with pytest.raises(Unavailable) as caught:
        provider.find("in:inbox", limit=10)
    assert (caught.value.code, caught.value.pauses) == (code, pauses)
    assert (waits, gmail.count("messages.list")) == (expected, len(expected) + 1)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "authError"), (403, "insufficientPermissions"), (400, ""), (404, "notFound")],
)
def test_permanent_error_is_not_retried(
    provider: GmailProvider, gmail: GmailServer, waits: Waits, status: int, reason: str
) -> None:
    gmail.fail("messages.list", status, reason, times=None)
    with pytest.raises((Refused, TokenRefused)):
        provider.find("in:inbox", limit=10)
    assert (waits, gmail.count("messages.list")) == ([], 1)


@pytest.mark.parametrize("name", ["messages.list", "batch"])
def test_unreadable_answer_is_no_answer(
    provider: GmailProvider, gmail: GmailServer, waits: Waits, name: str
) -> None:
    arrived(gmail, 1)
    gmail.garbles.add(name)
    with pytest.raises(Unavailable) as caught:
        provider.list_messages(folder="inbox", unread=None, limit=5, page_token=None)
    assert (caught.value.code, waits) == ("connection_lost", [1.0, 2.0])


def test_batch_with_a_refused_token_is_not_sent_again(
    provider: GmailProvider, gmail: GmailServer, waits: Waits
) -> None:
    arrived(gmail, 2)
    gmail.fail("messages.get", 401, "authError", times=None)
    with pytest.raises(TokenRefused):
        provider.list_messages(folder="inbox", unread=None, limit=5, page_token=None)
    assert (waits, gmail.count("batch")) == ([], 1)


def test_longer_retry_after_is_waited_for(
    provider: GmailProvider, gmail: GmailServer, waits: Waits
) -> None:
    gmail.fail("messages.list", 429, headers={"retry-after": "3"})
    provider.find("in:inbox", limit=10)
    assert waits == [3.0]


@pytest.mark.parametrize(
    ("status", "reason", "headers", "answer"),
    [
        pytest.param(429, "", {"retry-after": "120"}, (429, "rate_limited", 120, None), id="429-long-rest"),
        pytest.param(401, "authError", {}, (424, "auth_error", None, None), id="401"),
        pytest.param(
            403, "insufficientPermissions", {},
            (424, "auth_error", None, "https://www.googleapis.com/auth/gmail.readonly"), id="403-permission",
        ),
        pytest.param(503, "", {"retry-after": "120"}, (503, "transient", 120, None), id="503-long-rest"),
        pytest.param(400, "", {}, (422, "invalid_input", None, None), id="400"),
        pytest.param(403, "accessNotConfigured", {}, (422, "invalid_input", None, None), id="403-api-switched-off"),
        pytest.param(302, "", {"retry-after": "120"}, (503, "transient", 120, None), id="redirect"),
    ],
)  # fmt: skip
def test_gmail_error_is_a_problem_with_a_code(
    api: Api,
    gmail: GmailServer,
    status: int,
    reason: str,
    headers: dict[str, str],
    answer: tuple[Any, ...],
) -> None:
    gmail.fail("messages.list", status, reason, headers=headers, times=None)
    problem = problem_of(api.tool("gmail_search_messages", query="x"))
    told = (
        problem["status"],
        problem["code"],
        problem.get("retry_after"),
        problem.get("required_scope"),
    )
    assert told == answer
    assert "canary" not in str(problem)
    if problem["code"] == "auth_error":
        assert "manage.py connect_mailbox gmail" in problem["detail"]


def test_other_mailbox_gets_advice_on_tools(alice: User, server: MemoryServer) -> None:
    api = make_api(alice, make_mailbox("alice@lovelace.example", server, alice))
    for tool, arguments in (
        ("gmail_search_messages", {"query": "x"}),
        ("gmail_get_message", {"message_id": "12345"}),
    ):
        problem = problem_of(api.tool(tool, **arguments))
        assert (problem["code"], "search_emails" in problem["detail"]) == ("invalid_input", True)


def test_metrics_count_searches_pages_requests_and_rows(
    provider: GmailProvider, gmail: GmailServer, settings: Any, client: Any
) -> None:
    settings.MAILHUB_METRICS_TOKEN = "t"

    def sample(name: str) -> float:
        text = client.get("/metrics", headers={"Authorization": "Bearer t"}).content.decode()
        lines = (line for line in text.splitlines() if line.startswith(f"{name} "))
        return float(next(lines, "x 0").split()[1])

    names = (
        'mailhub_gmail_searches_total{outcome="ok"}',
        'mailhub_gmail_searches_total{outcome="rate_limited"}',
        "mailhub_gmail_search_seconds_count",
        'mailhub_gmail_search_pages_bucket{le="3.0"}',
        'mailhub_gmail_requests_total{method="messages.list",status="429"}',
        'mailhub_gmail_enriched_total{outcome="failed"}',
        'mailhub_gmail_enriched_total{outcome="ok"}',
    )
    before = [sample(name) for name in names]
    stored = arrived(gmail, 3)
    gmail.page_size = 2
    gmail.fail("messages.get", 500, only=lambda call: call.id == stored[0].id)
    provider.find("in:inbox", limit=5)
    gmail.fail("messages.list", 429, times=None)
    with pytest.raises(Unavailable):
        provider.find("in:inbox", limit=5)
    assert [sample(name) - was for name, was in zip(names, before, strict=True)] == [
        1,
        1,
        2,
        1,
        4,
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "rateLimitExceeded"), (403, "userRateLimitExceeded")]
)
@pytest.mark.parametrize("name", ["messages.list", "messages.get", "batch"])
def test_every_rate_limit_error_in_a_batch_counts_as_429(
    provider: GmailProvider, gmail: GmailServer, name: str, status: int, reason: str
) -> None:
    def counted() -> dict[str, float]:
        samples = (sample for metric in metrics.REQUESTS.collect() for sample in metric.samples)
        totals = (sample for sample in samples if sample.name.endswith("_total"))
        return {f"{each.labels['method']} {each.labels['status']}": each.value for each in totals}

    before = counted()
    arrived(gmail, 3)
    gmail.fail(name, status, reason)
    provider.list_messages(folder="inbox", unread=None, limit=5, page_token=None)
    news = {
        label: value - before.get(label, 0)
        for label, value in counted().items()
        if value != before.get(label, 0)
    }
    asked_again = {
        f"{'batch.messages.get' if name == 'batch' else name} 429": 1,
        "messages.list 200": 1,
    }
    batches = 2 if name == "messages.get" else 1
    assert news == {**asked_again, "batch.messages.get 200": batches, "messages.get 200": 3}
