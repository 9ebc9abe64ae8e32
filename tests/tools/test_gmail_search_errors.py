"""gmail_search_messages: its retries, its errors, and its metrics."""

from typing import Any

import pytest

from accounts.models import User
from tests.conftest import Api, make_api, make_mailbox, problem_of
from tests.support.people.gmail import arrived, gmail, mailbox
from tests.support.servers.gmail import GmailServer
from tests.support.servers.memory import MemoryServer
from tests.tools.gmail_search import Waits, provider, waits
from tools.providers.errors import Refused, TokenRefused, Unavailable
from tools.providers.gmail import GmailProvider, metrics

__all__ = ["gmail", "mailbox", "provider", "waits"]
pytestmark = pytest.mark.django_db


def test_429_is_retried_after_a_second(
    provider: GmailProvider, gmail: GmailServer, waits: Waits
) -> None:
    arrived(gmail, 1)
    gmail.fail("messages.list", 429)
    assert len(provider.reader.find("in:inbox", limit=10).rows) == 1
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
        provider.reader.find("in:inbox", limit=10)
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
        provider.reader.find("in:inbox", limit=10)
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
    provider.reader.find("in:inbox", limit=10)
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
    provider.reader.find("in:inbox", limit=5)
    gmail.fail("messages.list", 429, times=None)
    with pytest.raises(Unavailable):
        provider.reader.find("in:inbox", limit=5)
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
