"""Microsoft Graph behind the provider: the number and content of its requests, and the handling of
its refusals.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from accounts.infra import credentials
from accounts.models import Mailbox
from tests.concurrently import all_at_once
from tests.conftest import Api, problem_of
from tests.graphserver import GraphServer, graph_mailbox
from tests.mailserver import ADA, CHARLES
from tests.outlook import api, graph, letter, mailbox
from tools.models import MessageHandle
from tools.providers import handles
from tools.providers.base import SearchQuery
from tools.providers.errors import Refused, Unavailable
from tools.providers.graph import GraphProvider
from tools.providers.graph.outgoing import differences, parsed
from tools.providers.graph.queries import wanted
from tools.providers.graph.turns import turn

__all__ = ["api", "graph", "mailbox"]
pytestmark = pytest.mark.django_db
TODAY = date(2026, 11, 22)


@pytest.fixture
def ada(mailbox: Mailbox) -> GraphProvider:
    return GraphProvider.for_mailbox(mailbox)


def fill(graph: GraphServer, count: int) -> None:
    for number in range(count):
        graph.deliver(ADA, letter(subject=f"Order {number}").as_bytes())


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


def test_check_for_a_moved_thread_loads_two_short_messages(api: Api, graph: GraphServer) -> None:
    original = graph.deliver(ADA, letter().as_bytes())
    for number in range(4):
        later = letter(References="<question@northwind.example>")
        later.replace_header("Message-ID", f"<{number}@northwind.example>")
        graph.deliver(ADA, later.as_bytes())
    listed = api.tool("list_emails").json()["emails"]
    graph.hits.clear()
    preview = api.tool("reply_email", message_id=listed[-1]["id"], comment="On Friday.").json()
    assert "thread_moved" in {warning["code"] for warning in preview["warnings"]}
    (hit,) = (hit for hit in graph.hits if "conversationId eq" in hit.query.get("$filter", ""))
    assert hit.query["$top"] == "2"
    assert not {"body", "internetMessageHeaders"} & set(hit.query["$select"].split(","))
    assert not any(
        original.id in hit.path and hit.path.endswith("/attachments") for hit in graph.hits
    )


@pytest.mark.goal("P10")
@pytest.mark.django_db(transaction=True)
def test_no_more_than_three_requests_at_once_per_mailbox(
    ada: GraphProvider, graph: GraphServer
) -> None:
    fill(graph, 1)
    graph.delay = 0.05
    all_at_once(
        [
            lambda: ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
            for _ in range(12)
        ]
    )
    assert graph.most_at_once[ADA] == 3


@pytest.fixture
def elsewhere(mailbox: Mailbox, settings: Any) -> Iterator[subprocess.Popen[str]]:
    """Yield another process of this machine that holds two of the mailbox's three concurrency
    slots.
    """
    program = (
        "import sys, django; django.setup(); from tools.providers.graph.turns import turn\n"
        "with turn(sys.argv[1]), turn(sys.argv[1]): print('has them', flush=True); sys.stdin.read()"
    )
    home = {"MAILHUB_HOME": str(settings.MAILHUB_HOME), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(mailbox.pk)],
        env={**os.environ, **home},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout
        assert running.stdout.readline() == "has them\n"
        yield running
        running.kill()


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
    all_at_once(calls)
    assert graph.most_at_once[ADA] == 3


def test_missing_concurrency_slot_is_reported_early(
    ada: GraphProvider, graph: GraphServer, mailbox: Mailbox, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tools.providers.graph.turns.WAIT_SECONDS", 0.05)
    with (
        turn(mailbox.pk),
        turn(mailbox.pk),
        turn(mailbox.pk),
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


def all_pages(ada: GraphProvider, limit: int) -> list[str]:
    """Return the subjects of the inbox, page after page."""
    seen: list[str] = []
    token: str | None = None
    for _ in range(100):
        page = ada.list_messages(folder="inbox", unread=None, limit=limit, page_token=token)
        seen += [card.subject for card in page.cards]
        token = page.next_token
        assert len(token or "") <= 200
        if token is None:
            return seen
    raise AssertionError("pages without end")


def test_pages_are_complete_with_times_finer_than_shown(
    ada: GraphProvider, graph: GraphServer
) -> None:
    fill(graph, 7)
    assert all_pages(ada, 2) == [f"Order {number}" for number in range(6, -1, -1)]


@pytest.mark.parametrize(("count", "limit"), [(7, 2), (70, 10)])
def test_pages_show_each_mail_once_within_one_second(
    ada: GraphProvider, graph: GraphServer, count: int, limit: int
) -> None:
    graph.store.one_second = True
    fill(graph, count)
    assert sorted(all_pages(ada, limit)) == sorted(f"Order {number}" for number in range(count))


@pytest.mark.parametrize("count", [12, 90])
def test_short_page_of_a_server_is_not_the_last(
    ada: GraphProvider, graph: GraphServer, count: int
) -> None:
    graph.most_per_page, graph.empty_pages = 4, 2
    graph.store.one_second = count == 90
    fill(graph, count)
    assert sorted(all_pages(ada, 10)) == sorted(f"Order {number}" for number in range(count))


def test_many_empty_pages_are_not_an_empty_list(api: Api, graph: GraphServer) -> None:
    fill(graph, 1)
    graph.empty_pages = 200
    for tool in ("list_emails", "list_folders"):
        assert problem_of(api.tool(tool))["code"] == "too_large"


def test_folders_files_and_threads_are_whole_across_pages(
    ada: GraphProvider, graph: GraphServer
) -> None:
    for number in range(5):
        message = letter(subject=f"Order {number}")
        message.replace_header("Message-ID", f"<{number}@northwind.example>")
        if number:
            message["References"] = "<0@northwind.example>"
        for name in ("a.txt", "b.txt", "c.txt"):
            message.add_attachment(name.encode(), "text", "plain", filename=name)
        graph.deliver(ADA, message.as_bytes())
    card = ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None).cards[0]
    graph.most_per_page, graph.empty_pages = 1, 1
    assert len(ada.list_folders()) == len(graph.store.names)
    thread = ada.read_thread(card.id, limit=4)
    assert {(each.subject, len(each.attachments)) for each in thread} == {
        (f"Order {n}", 3) for n in (1, 2, 3, 4)
    }
    info = ada.read_message(card.id, body=False).attachments[2]
    assert ada.fetch_attachment(card.id, info.id, limit=100)[1] == b"c.txt"


GERMAN = {
    "inbox": "Posteingang",
    "sentitems": "Gesendete Elemente",
    "drafts": "Entwürfe",
    "deleteditems": "Gelöschte Elemente",
}


def test_folder_role_is_found_in_every_language(api: Api, graph: GraphServer) -> None:
    graph.store.names = GERMAN  # an unused folder, archive or junk, does not exist yet
    graph.store.make_folder(ADA, "Drafts")
    for _ in range(2):
        rows = api.tool("list_folders").json()["folders"]
        assert {row["name"]: row.get("role") for row in rows} == {
            "Posteingang": "inbox",
            "Gesendete Elemente": "sent",
            "Entwürfe": "drafts",
            "Gelöschte Elemente": "trash",
            "Drafts": None,
        }
    looked_up = [
        hit
        for hit in graph.hits
        if hit.path.endswith(("/inbox", "/sentitems", "/drafts", "/deleteditems"))
    ]
    assert len(looked_up) == 4


def test_nested_folders_are_listed_and_read_by_name_and_id(
    api: Api, ada: GraphProvider, graph: GraphServer
) -> None:
    folder = ""
    for name in (
        "Customers",
        "North",
        "Hamburg",
        "Invoices-2026-Northwind-International-GmbH-Hamburg",
    ):
        folder = graph.store.make_folder(ADA, name, inside=folder)
    graph.deliver(
        ADA, letter(subject="Deep").as_bytes(), folder=graph.store.known_folder(ADA, folder)
    )
    assert name in {row["name"] for row in api.tool("list_folders").json()["folders"]}
    for named in (name, folder, folder):
        graph.hits.clear()
        (card,) = api.tool("list_emails", folder=named).json()["emails"]
        assert card["subject"] == "Deep"
    assert len(graph.hits) == 1  # a folder that was found is not looked up again
    assert problem_of(api.tool("list_emails", folder=f"{folder}x"))["code"] == "not_found"


def test_unexplored_folders_are_marked_and_readable_by_id(
    api: Api, graph: GraphServer, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tools.providers.graph.mailbox.BRANCHES", 1)
    first, second = (graph.store.make_folder(ADA, name) for name in ("First", "Second"))
    graph.store.make_folder(ADA, "Inside first", inside=first)
    hidden = graph.store.make_folder(ADA, "Inside second", inside=second)
    rows = {row["name"]: row for row in api.tool("list_folders").json()["folders"]}
    assert "Inside first" in rows
    assert "Inside second" not in rows
    assert [name for name, row in rows.items() if row.get("more_inside")] == ["Second"]
    assert (
        "does not name all" in problem_of(api.tool("list_emails", folder="Inside second"))["detail"]
    )
    assert api.tool("list_emails", folder=hidden).json()["emails"] == []


def test_sent_mail_is_found_behind_an_empty_page(ada: GraphProvider, graph: GraphServer) -> None:
    graph.deliver(ADA, letter().as_bytes(), folder="sentitems")
    graph.empty_pages = 1
    for item in graph.sent(ADA):
        item.shown["isDraft"] = False
    assert ada.find_sent("<question@northwind.example>") == "<question@northwind.example>"


def test_search_pages_follow_only_links_of_the_server(
    ada: GraphProvider, graph: GraphServer, mailbox: Mailbox
) -> None:
    fill(graph, 5)
    first = ada.search(SearchQuery(raw="order"), limit=3, page_token=None)
    second = ada.search(SearchQuery(raw="order"), limit=3, page_token=first.next_token)
    assert [card.subject for card in (*first.cards, *second.cards)] == [
        f"Order {n}" for n in (4, 3, 2, 1, 0)
    ]
    assert len(first.next_token or "") <= 20

    elsewhere = handles.shortened(mailbox.pk, ["https://evil.example/v1.0/me/messages"])
    for token in (*elsewhere.values(), "unknown", first.cards[0].id):
        with pytest.raises(Refused) as caught:
            ada.search(SearchQuery(raw="order"), limit=3, page_token=token)
        assert caught.value.code == "invalid_page_token"


@pytest.mark.parametrize(
    "spelled",
    [
        lambda path: path.replace("@", "%40"),
        lambda path: path.replace(
            f"/users/{ADA}/mailFolders/inbox", f"/users('{ADA}')/mailFolders('inbox')"
        ),
        lambda path: path.replace(
            f"/users/{ADA}/", f"/users('{ADA.title().replace('@', '%40')}')/"
        ),
    ],
)
def test_pages_continue_with_any_spelling_of_the_address(
    mailbox: Mailbox, graph: GraphServer, spelled: Callable[[str], str]
) -> None:
    application = GraphProvider.for_mailbox(as_application(mailbox))
    fill(graph, 5)
    graph.spell_link = spelled
    token, seen = None, []
    for _ in range(3):
        page = application.search(SearchQuery(raw="order"), limit=2, page_token=token)
        token = page.next_token
        seen += [card.subject for card in page.cards]
    assert (token, seen) == (None, [f"Order {number}" for number in (4, 3, 2, 1, 0)])


@pytest.mark.parametrize(
    "elsewhere",
    [
        "/v1.0/users/charles@lovelace.example/messages", f"/v1.0/users('{ADA}')/../{CHARLES}/messages",
        f"/v1.0/users/{ADA}/%2e%2e/{CHARLES}/messages", f"/beta/users/{ADA}/messages", f"/v1.0/users/{ADA}.example/x",
    ],
)  # fmt: skip
def test_no_page_leads_into_another_application_mailbox(
    mailbox: Mailbox, graph: GraphServer, elsewhere: str
) -> None:
    application = GraphProvider.for_mailbox(as_application(mailbox))
    fill(graph, 3)
    graph.spell_link = lambda path: elsewhere
    first = application.search(SearchQuery(raw="order"), limit=2, page_token=None)
    with pytest.raises(Refused, match="invalid_page_token"):
        application.search(SearchQuery(raw="order"), limit=2, page_token=first.next_token)
    assert len(graph.hits) == 1


def as_application(mailbox: Mailbox) -> Mailbox:
    secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    mailbox.credentials = credentials.encrypt(
        {**secrets, "application": True}, mailbox_id=mailbox.pk
    )
    mailbox.save()
    return mailbox


def test_unread_words_are_found_behind_pages_of_read_ones(
    ada: GraphProvider, graph: GraphServer
) -> None:
    graph.deliver(ADA, letter(subject="Order old").as_bytes())
    for _ in range(5):
        graph.deliver(ADA, letter(subject="Order read").as_bytes(), unread=False)
    page = ada.search(SearchQuery(raw="order", unread=True), limit=2, page_token=None)
    assert [card.subject for card in page.cards] == ["Order old"]


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
    want = wanted(query, today=TODAY)
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
    ada._client._tokens = tokens
    with pytest.raises(Unavailable, match="token_refused"):
        ada.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    assert renewed == ["", next(iter(graph.tokens))]
    assert len(graph.hits) == 2


def source(**changes: str) -> bytes:
    return letter(**changes).as_bytes()


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda read: read.update(subject="x"), ["subject"]),
        (lambda read: read["toRecipients"].pop(), ["to"]),
        (lambda read: read.update(importance="high"), ["importance"]),
        (lambda read: read["body"].update(content="When do you come?\r\n\r\n"), []),
        (lambda read: read["body"].update(content="When do you come!"), ["body"]),
        (
            lambda read: read["body"].update(
                content="<p>When do you come?</p>", contentType="html"
            ),
            ["body"],
        ),
    ],
)
def test_read_back_compares_all_visible_parts(
    change: Callable[[dict[str, Any]], object], wrong: list[str]
) -> None:
    outgoing = parsed(source())
    read = outgoing.as_json()
    change(read)
    assert differences(outgoing, read, []) == wrong
    assert differences(outgoing, outgoing.as_json(), [("a", "b")]) == ["attachments"]
