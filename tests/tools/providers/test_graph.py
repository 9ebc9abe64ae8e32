"""Microsoft Graph behind the provider: the number and content of its requests, and the handling of
its refusals.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from accounts.models import Mailbox
from tests.conftest import Api, problem_of
from tests.support.concurrently import all_at_once
from tests.support.people.outlook import graph, letter, mailbox
from tests.support.servers.graph import GraphServer, graph_mailbox
from tests.support.servers.sandbox import ADA, CHARLES
from tests.tools.providers.graph_mail import TODAY, ada, elsewhere, fill
from tests.tools.providers.test_graph_pages import all_pages
from tools.models import MessageHandle
from tools.providers.base import SearchQuery
from tools.providers.errors import Refused, Unavailable
from tools.providers.graph import GraphProvider
from tools.providers.graph.queries import build_search
from tools.providers.graph.slots import hold_slot

__all__ = ["ada", "elsewhere", "graph", "mailbox"]
pytestmark = pytest.mark.django_db


@pytest.mark.goal("P10")
@pytest.mark.parametrize(
    "query",
    [
        pytest.param({}, id="list"),
        pytest.param({"subject": "order"}, id="filter"),
        pytest.param({"query": "order"}, id="search"),
    ],
)
def test_ten_results_need_one_request_with_shown_fields_only(
    api: Api, graph: GraphServer, query: dict[str, str]
) -> None:
    fill(graph, 12)
    answer = api.tool("search_emails" if query else "list_emails", **query).json()
    assert len(answer["emails"]) == 10
    (hit,) = graph.hits
    assert set(hit.query["$select"].split(",")) < {
        "id",
        "subject",
        "from",
        "toRecipients",
        "receivedDateTime",
        "sentDateTime",
        "bodyPreview",
        "isRead",
        "isDraft",
        "hasAttachments",
        "body",
    }


def test_own_answer_is_found_without_headers(api: Api, graph: GraphServer) -> None:
    """Graph shows no headers of mail in Sent, so its place in the conversation counts."""
    graph.deliver(ADA, letter().as_bytes())
    by_hand = letter(ADA, to="mira@northwind.example", References="<question@northwind.example>")
    by_hand.replace_header("Message-ID", "<by-hand@lovelace.example>")
    item = graph.deliver(ADA, by_hand.as_bytes(), folder="sentitems")
    item.shown["internetMessageHeaders"] = None
    (card,) = api.tool("list_emails").json()["emails"]

    proposal = api.tool("reply_email", message_id=card["id"], comment="Yes.", confirm=True).json()

    assert "answered_already" in {warning["code"] for warning in proposal["warnings"]}


def test_check_for_a_moved_thread_loads_headers_only(api: Api, graph: GraphServer) -> None:
    original = graph.deliver(ADA, letter().as_bytes())
    for number in range(4):
        later = letter(References="<question@northwind.example>")
        later.replace_header("Message-ID", f"<{number}@northwind.example>")
        graph.deliver(ADA, later.as_bytes())
    listed = api.tool("list_emails").json()["emails"]
    graph.hits.clear()
    given = {"message_id": listed[-1]["id"], "comment": "On Friday.", "confirm": True}
    proposal = api.tool("reply_email", **given).json()
    assert "thread_moved" in {warning["code"] for warning in proposal["warnings"]}
    (hit,) = (hit for hit in graph.hits if "conversationId eq" in hit.query.get("$filter", ""))
    assert hit.query["$top"] == "50"
    assert "body" not in hit.query["$select"].split(",")
    assert not any(
        original.id in hit.path and hit.path.endswith("/attachments") for hit in graph.hits
    )


@pytest.mark.goal("P10")
@pytest.mark.django_db(transaction=True)
def test_no_more_than_three_requests_at_once_per_mailbox(
    ada: GraphProvider, graph: GraphServer
) -> None:
    fill(graph, 1)
    graph.meet, graph.delay = 3, 0.05  # a fourth one would come meanwhile
    all_at_once(
        [
            lambda: ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
            for _ in range(12)
        ]
    )
    assert graph.most_at_once[ADA] == 3


@pytest.mark.goal("P10")
@pytest.mark.django_db(transaction=True)
def test_processes_share_slots_and_a_kill_frees_its_slot(
    ada: GraphProvider, graph: GraphServer, elsewhere: subprocess.Popen[str]
) -> None:
    fill(graph, 1)
    graph.delay = 0.02
    calls = [
        lambda: ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
        for _ in range(6)
    ]
    all_at_once(calls)
    assert graph.most_at_once[ADA] == 1
    elsewhere.kill()
    elsewhere.wait()
    graph.meet = 3
    all_at_once(calls)
    assert graph.most_at_once[ADA] == 3


def test_missing_concurrency_slot_is_reported_early(
    ada: GraphProvider, graph: GraphServer, mailbox: Mailbox, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tools.providers.graph.slots.WAIT_SECONDS", 0.05)
    with (
        hold_slot(mailbox.pk),
        hold_slot(mailbox.pk),
        hold_slot(mailbox.pk),
        pytest.raises(Unavailable, match="busy"),
    ):
        ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    assert graph.hits == []


def test_unwritable_home_does_not_prevent_reading(
    ada: GraphProvider, graph: GraphServer, settings: Any, tmp_path: Path
) -> None:
    settings.MAILHUB_HOME = tmp_path / "not" / "there"
    fill(graph, 1)
    assert len(all_pages(ada, 1)) == 1


@pytest.mark.parametrize(
    ("query", "search", "filters"),
    [
        (SearchQuery(subject="it's"), "", ("contains(subject,'it''s')",)),
        (
            SearchQuery(unread=True, has_attachments=False),
            "",
            ("hasAttachments eq false", "isRead eq false"),
        ),
        (SearchQuery(since=TODAY), "", ("receivedDateTime ge 2026-11-22T00:00:00Z",)),
        (SearchQuery(newer_than_days=2), "", ("receivedDateTime ge 2026-11-20T00:00:00Z",)),
        (SearchQuery(from_="mira"), r"from:\"mira\"", ()),
        (SearchQuery(from_='x" OR from:"boss'), r"from:\"x  OR from: boss\"", ()),
        (SearchQuery(raw="a OR b", before=TODAY), "(a OR b) AND received<2026-11-22", ()),
        (SearchQuery(raw='say "so" \\'), r"say \"so\" \\", ()),
    ],
)
def test_search_uses_the_query_language_that_fits(
    query: SearchQuery, search: str, filters: tuple[str, ...]
) -> None:
    want = build_search(query, today=TODAY)
    assert (want.search, want.filters) == (search, filters)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        pytest.param(
            400, "ErrorInvalidRequest", {"code": "invalid_input", "status": 422}, id="400"
        ),
        pytest.param(
            403,
            "ErrorAccessDenied",
            {"code": "auth_error", "status": 424, "required_scope": "Mail.Read"},
            id="403",
        ),
        pytest.param(404, "ErrorItemNotFound", {"code": "not_found", "status": 404}, id="404"),
        pytest.param(413, "RequestBodyTooLarge", {"code": "too_large", "status": 413}, id="413"),
        pytest.param(
            429,
            "ApplicationThrottled",
            {"code": "rate_limited", "status": 429, "retry_after": 17},
            id="429",
        ),
        pytest.param(503, "ErrorServerBusy", {"code": "rate_limited", "status": 429}, id="busy"),
        pytest.param(502, "", {"code": "transient", "status": 503}, id="502"),
    ],
)
def test_refused_read_is_a_problem_without_provider_text(
    api: Api, graph: GraphServer, mailbox: Mailbox, status: int, code: str, said: dict[str, Any]
) -> None:
    graph.fault("answer", on="list", status=status, code=code, Retry_After="17")
    answer = api.tool("list_emails")
    problem = problem_of(answer)
    assert {name: problem.get(name) for name in said} == said
    assert "PROVIDER TEXT" not in answer.content.decode()
    mailbox.refresh_from_db()
    assert mailbox.status == ("error" if said["code"] == "transient" else "active")
    assert len(graph.hits) == 1


def test_handle_is_short_and_useless_in_another_mailbox(
    ada: GraphProvider, graph: GraphServer
) -> None:
    charles = GraphProvider.for_mailbox(graph_mailbox(graph, CHARLES))
    fill(graph, 2)
    for _ in range(2):
        cards = ada.list_messages(folder="inbox", unread=None, limit=5, page_token=None).cards
    assert {len(card.id) for card in cards} == {16}
    assert MessageHandle.objects.count() == 2
    with pytest.raises(Refused):
        charles.read_message(cards[0].id, body=False)


def test_token_refused_by_graph_is_renewed_for_one_retry(
    mailbox: Mailbox, graph: GraphServer, monkeypatch: Any
) -> None:
    graph.fault("answer", on="list", status=401, times=2)
    renewed: list[str] = []

    def tokens(rejected: str) -> str:
        renewed.append(rejected)
        return next(iter(graph.tokens))

    ada = GraphProvider.for_mailbox(mailbox)
    ada.mailbox.client._tokens = tokens
    with pytest.raises(Unavailable, match="token_refused"):
        ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    assert renewed == ["", next(iter(graph.tokens))]
    assert len(graph.hits) == 2
