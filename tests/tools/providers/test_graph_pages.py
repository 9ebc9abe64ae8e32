"""Pages of mails and folders at Microsoft 365: complete, in order, and only from the mailbox asked
for.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from accounts.models import Mailbox
from tests.conftest import Api, problem_of
from tests.support.people.outlook import graph, letter, mailbox
from tests.support.servers.graph import GraphServer
from tests.support.servers.sandbox import ADA, CHARLES
from tests.tools.providers.graph_mail import ada, as_application, elsewhere, fill
from tools.providers import handles
from tools.providers.base import SearchQuery
from tools.providers.errors import Refused
from tools.providers.graph import GraphProvider

__all__ = ["ada", "elsewhere", "graph", "mailbox"]
pytestmark = pytest.mark.django_db


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


@pytest.mark.parametrize("count", [12, pytest.param(90, marks=pytest.mark.long)])
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
    thread = ada.read_thread(card.id, limit=4).messages
    assert {(each.subject, len(each.attachments)) for each in thread} == {
        (f"Order {n}", 3) for n in (1, 2, 3, 4)
    }
    arrived = ada.read_arrivals(datetime(2001, 1, 1, tzinfo=UTC), limit=5)
    assert (len(arrived.messages), arrived.is_whole) == (5, True)
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

    elsewhere = handles.shorten(mailbox.pk, ["https://evil.example/v1.0/me/messages"])
    for token in (*elsewhere.values(), "unknown", first.cards[0].id):
        with pytest.raises(Refused) as caught:
            ada.search(SearchQuery(raw="order"), limit=3, page_token=token)
        assert caught.value.code == "invalid_page_token"


@pytest.mark.parametrize(("left", "new"), [((4,), 0), ((), 1), ((4, 3), 2)])
def test_search_goes_on_behind_its_last_mail(
    api: Api, graph: GraphServer, left: tuple[int, ...], new: int
) -> None:
    """Mails that were shown may leave the folder, and others arrive, before the next page."""
    fill(graph, 5)
    first = api.tool("search_emails", query="order", max_results=2).json()
    assert [each["subject"] for each in first["emails"]] == ["Order 4", "Order 3"]
    for item in graph.store.in_folder(ADA, "inbox"):
        if item.shown["subject"] in {f"Order {number}" for number in left}:
            graph.store.move(ADA, item, "archive")
    for _ in range(new):
        graph.deliver(ADA, letter(subject="Order new").as_bytes())
    token = first["next_page_token"]
    second = api.tool("search_emails", query="order", max_results=2, page_token=token).json()
    assert [each["subject"] for each in second["emails"]] == ["Order 2", "Order 1"]


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


def test_unread_words_are_found_behind_pages_of_read_ones(
    ada: GraphProvider, graph: GraphServer
) -> None:
    graph.deliver(ADA, letter(subject="Order old").as_bytes())
    for _ in range(5):
        graph.deliver(ADA, letter(subject="Order read").as_bytes(), unread=False)
    page = ada.search(SearchQuery(raw="order", unread=True), limit=2, page_token=None)
    assert [card.subject for card in page.cards] == ["Order old"]
