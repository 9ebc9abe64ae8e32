"""The cost of reading, in bytes and in time, against floors measured in turn in the same run.

`make bench` prints it.

Collected only by name: a test must not measure time.
"""

import json
import os
import pwd
import statistics
import time
from collections.abc import Callable
from email import message_from_bytes, policy
from functools import partial
from typing import Any, TypeVar

import httpx2
import pytest
from imapclient import IMAPClient

from accounts.infra import credentials
from accounts.models import Mailbox, Membership, Role, User
from tests.bench.page import write_section
from tests.conftest import Api, make_api
from tests.support.people.gmail import connected
from tests.support.people.office import Office, letter, office, opened
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.gmail import GmailServer
from tests.support.servers.graph import GraphServer, graph_mailbox
from tools.catalog.entries import DEFAULT_TOOLSETS, TOOLS, Tool
from tools.catalog.tool_schema import published_hints, published_parameters

__all__ = ["office"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

ROUNDS = 40
ROUND_TRIP = 0.05
S = TypeVar("S", GraphServer, GmailServer)


def filled(office: Office, count: int) -> None:
    """Put `count` messages into Ada's inbox at once: as files, because APPEND would take
    minutes.
    """
    folder = office.imap.folder / "mail" / office.ada / "cur"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        sender = f"Person {number % 97} <p{number % 97}@{'northwind' if number % 15 else 'insura'}.example>"
        message = letter(
            to=office.ada,
            subject=f"Order {number} is on its way",
            sender=sender,
            text="word " * 400,
        )
        (folder / f"{1_790_000_000 + number}.M{number}P1.bench:2,S").write_bytes(message.as_bytes())
    owner = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    for path in (folder.parent, folder, *folder.iterdir()):
        os.chown(path, owner.pw_uid, owner.pw_gid)


def read_whole(client: IMAPClient, uid: int) -> None:
    """Read as a client without BODYSTRUCTURE does: fetch all of it, and then take the text."""
    source = client.fetch([uid], ["BODY.PEEK[]"])[uid][b"BODY[]"]
    text = message_from_bytes(source, policy=policy.default).get_body(("plain",))
    assert text is not None
    assert "word" in text.get_content()


def in_turn(*calls: Callable[[], object]) -> list[float]:
    """Return the median milliseconds of each call; every round runs all of them."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, taken in zip(calls, times, strict=True):
            started = time.perf_counter()
            call()
            taken.append((time.perf_counter() - started) * 1000)
    return [statistics.median(taken) for taken in times]


def newest_ten(client: IMAPClient) -> None:
    uids = client.search(["UID", "1:*"])[-10:]
    client.fetch(uids, ["ENVELOPE", "FLAGS", "BODYSTRUCTURE"])


def fresh(office: Office) -> None:
    client = office.imap.connect(office.ada)
    client.select_folder("INBOX")
    newest_ten(client)
    client.logout()


def found(client: IMAPClient) -> None:
    uids = client.search(["FROM", "insura"])[-10:]
    client.fetch(uids, ["ENVELOPE", "FLAGS", "BODYSTRUCTURE"])


def shown(tool: Tool) -> dict[str, Any]:
    """Return a tool as MCP lists it."""
    hints = published_hints(tool)
    listed = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": published_parameters(tool.parameters),
    }
    return listed | ({"annotations": hints} if hints else {})


def sizes(office: Office) -> list[tuple[str, str, str, str]]:
    """Return rows (goal, name, bytes, others) of compact JSON as a client receives it."""
    page = letter(to=office.ada, subject="Offers of the week", sender="news@shop.example")
    page.set_content(
        "<p>" + "A very good <a href='https://shop.example/o?u=1'>offer</a> today. " * 900 + "</p>",
        "html",
    )
    first = letter(to=office.ada, text="First. " * 300)
    office.receive(first)
    last = office.receive(
        letter(to=office.ada, text="Last. " * 300, References=first["Message-ID"])
    )
    newsletter = office.receive(page)
    ten = office.api.tool("list_emails").content
    read = office.api.tool("read_email", message_id=newsletter).content
    thread = office.api.tool("read_thread", message_id=last).content
    default = [shown(tool) for tool in TOOLS.values() if tool.toolset in DEFAULT_TOOLSETS]
    tools = json.dumps(default, ensure_ascii=False, separators=(",", ":")).encode()
    return [
        ("P6", "`tools/list`, default toolsets", f"{len(tools):,}", "12,260 to 280,000"),
        (
            "P5",
            "ten newest",
            f"{len(ten):,}",
            "1,318 to 185,569; mcp-email-server 4,733, ms-365 42,184",
        ),
        ("P5", "one newsletter of 60 KB HTML", f"{len(read):,}", "20,294 to 93,775"),
        ("", "one thread", f"{len(thread):,}", "not measured"),
    ]


def search_of_ten(api: Api) -> None:
    answer = api.tool("search_emails", query="Order")
    assert len(answer.json()["emails"]) == 10, answer.content


def far_away(
    user: User, server: S, mailbox: Mailbox, measured: Callable[[S, Api, httpx2.Client], float]
) -> float:
    """Return a measurement on a server that is 50 ms away, with twelve messages and its own kept
    connection.
    """
    for number in range(12):
        message = letter(to=mailbox.address, subject=f"Order {number}", text="word " * 400)
        server.deliver(mailbox.address, message.as_bytes())
    server.delay = ROUND_TRIP
    token = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)["access_token"]
    with httpx2.Client(headers={"Authorization": f"Bearer {token}"}) as client:
        return measured(server, make_api(user, mailbox, name=mailbox.provider), client)


def at_graph(graph: GraphServer, api: Api, client: httpx2.Client) -> float:
    """Return the round trips of a search. One is its own request, repeated without anything around
    it.
    """
    search_of_ten(api)
    asked = graph.hits[-1]
    address, headers = f"http://127.0.0.1:{graph.port}{asked.path}", {"Prefer": asked.prefer}
    ours, one = in_turn(
        lambda: search_of_ten(api),
        lambda: client.get(address, params=asked.query, headers=headers).raise_for_status(),
    )
    return ours / one


def at_gmail(gmail: GmailServer, api: Api, client: httpx2.Client) -> float:
    """Return the same for Gmail, whose search makes two requests."""
    search_of_ten(api)
    listed, batch = [call for call in gmail.calls if not call.inside][-2:]
    kind = f'multipart/mixed; boundary="{batch.content.split(None, 1)[0][2:].decode()}"'

    def bare() -> None:
        client.get(
            f"{gmail.url}/gmail/v1/users/me/messages", params=dict(listed.arguments)
        ).raise_for_status()
        answer = client.post(
            f"{gmail.url}/batch", content=batch.content, headers={"content-type": kind}
        )
        answer.raise_for_status()

    ours, two = in_turn(lambda: search_of_ten(api), bare)
    return ours / (two / 2)


@pytest.fixture
def round_trips(settings: Any, alice: User) -> list[tuple[str, str, float, str]]:
    """Return the cost of a search at a provider that is 50 ms away."""
    with GraphServer() as graph, GmailServer() as gmail:
        settings.GRAPH_BASE_URL = graph.url
        settings.GMAIL_BASE_URL, settings.GOOGLE_TOKEN_URI = gmail.url, gmail.token_uri
        outlook = graph_mailbox(graph, "ada@outlook.example")
        Membership.objects.create(mailbox=outlook, user=alice, role=Role.MANAGER)
        at_google = connected(gmail, alice, "ada@gmail.example")
        graph_trips = far_away(alice, graph, outlook, at_graph)
        gmail_trips = far_away(alice, gmail, at_google, at_gmail)
    return [
        (
            "P10",
            "search of ten over REST, Microsoft 365 at 50 ms / one round trip",
            graph_trips,
            "1.2",
        ),
        ("P10", "search of ten over REST, Gmail at 50 ms / one round trip", gmail_trips, "2.3"),
    ]


def large_and_small(office: Office, client: IMAPClient) -> list[tuple[str, str, float, str]]:
    """Measure P4: messages of 1.4 MB and of 40 KB, fetched whole and parsed, against reading their
    text.
    """
    found = []
    for what, size, most in (("1.4 MB", 1_000_000, "0.4"), ("40 KB", 25_000, "1.2")):
        message = letter(to=office.ada, subject=what, text="word " * 400)
        message.add_attachment(os.urandom(size), "application", "pdf", filename="large.pdf")
        name = office.receive(message)
        client.noop()
        uid = client.search(["ALL"])[-1]
        ours, whole = in_turn(
            partial(office.tool, "read_email", message_id=name), partial(read_whole, client, uid)
        )
        found.append(
            (
                "P4",
                f"reading a message of {what} / fetching and parsing it whole",
                ours / whole,
                most,
            )
        )
    return found


def smaller(dovecot: Dovecot) -> tuple[float, float]:
    """Return P3 in milliseconds: the newest ten and a search, in a mailbox of 1,000 messages."""
    with opened(dovecot) as office:
        filled(office, 1_000)
        office.tool("list_emails")
        newest, search = in_turn(
            lambda: office.tool("list_emails"),
            lambda: office.tool("search_emails", **{"from": "insura"}),
        )
        return newest, search


@pytest.mark.goal("P1", "P2", "P3", "P4", "P5", "P6", "P10")
def test_cost_of_reading(
    office: Office,
    dovecot: Dovecot,
    capsys: pytest.CaptureFixture[str],
    round_trips: list[tuple[str, str, float, str]],
) -> None:
    newest, found_in_few = smaller(dovecot)
    filled(office, 10_000)
    kept = office.imap.signed_in(office.ada)
    kept.select_folder("INBOX")
    newest_ten(kept)
    office.tool("list_emails")

    ours, floor, floor_fresh = in_turn(
        lambda: office.tool("list_emails"), lambda: newest_ten(kept), lambda: fresh(office)
    )
    search, missing, raw, raw_missing = in_turn(
        lambda: office.tool("search_emails", **{"from": "insura"}),
        lambda: office.tool("search_emails", **{"from": "nobody-at-all"}),
        lambda: found(kept),
        lambda: kept.search(["FROM", "nobody-at-all"]),
    )
    times = [
        ("P1", "newest ten over REST / on a kept connection", ours / floor, "1.5"),
        ("P1", "newest ten over REST / on a fresh connection", ours / floor_fresh, "1.0"),
        ("P2", "search by a common sender / raw SEARCH and FETCH", search / raw, "0.6"),
        ("P2", "search by what is not there / raw SEARCH", missing / raw_missing, "1.3"),
        ("P3", "newest ten of 10,000 messages / of 1,000", ours / newest, "1.5"),
        (
            "P3",
            "search by a common sender in 10,000 messages / in 1,000",
            search / found_in_few,
            "1.5",
        ),
        *large_and_small(office, kept),
        *round_trips,
    ]
    lines = ["| goal | result | bytes | other servers, characters |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(cells)} |" for cells in sizes(office)]
    lines += [
        "",
        "On 10,000 messages:",
        "",
        "| goal | what | ratio | at most |",
        "| --- | --- | --- | --- |",
    ]
    lines += [f"| {goal} | {what} | {ratio:.2f} | {most} |" for goal, what, ratio, most in times]
    section = write_section("Reading", lines)
    with capsys.disabled():
        print("\n" + section)  # noqa: T201  # the table is what it is for
