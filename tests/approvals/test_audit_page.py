"""The audit page: its content for each reader, its filters, pages and export, and the findings of
its button.
"""

import ast
import csv
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import ApiToken, Mailbox, Membership, User
from approvals import guards
from approvals.audit import audit_views as view
from approvals.audit import chain, log, proof
from approvals.audit import words as audit_words
from approvals.core.types import Verdict
from approvals.models import AuditChain, AuditEvent, PendingAction
from approvals.models.audit import NO_MAILBOX
from tests.conftest import make_api, make_mailbox
from tests.people import browser
from tests.work import work
from tools.providers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def _own_heads(settings: Any, tmp_path: Path) -> None:
    """Give each test its own file of heads, because the file belongs to one database."""
    settings.MAILHUB_HOME = tmp_path


@pytest.fixture
def sent(approved: Callable[..., PendingAction]) -> PendingAction:
    """Return a sent action: created, approved, claimed, outcome_accepted are in the mailbox's
    chain.
    """
    action = approved()
    work()
    return action


def page(person: User | Client, query: str = "") -> str:
    client = person if isinstance(person, Client) else browser(person)
    answer = client.get(f"/audit/{query}")
    assert answer.status_code == 200, (query, answer.status_code)
    return unescape(answer.content.decode())


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r">#(\d+)</td>", text)]


def exported(person: User, query: str = "") -> list[dict[str, Any]]:
    """Return the rows of the export as JSON Lines."""
    answer = browser(person).get(f"/audit/export/?format=jsonl&{query}")
    assert answer.status_code == 200
    return [json.loads(line) for line in b"".join(answer).decode().splitlines()]


def verified(person: User) -> str:
    answer = browser(person).post("/audit/verify/")
    assert answer.status_code == 200
    return re.sub(
        r"\s+", " ", unescape(re.sub("<[^>]+>", "", answer.content.decode().partition("<main")[2]))
    )


def many(mailbox: Mailbox | None, count: int, event: str = "paused") -> None:
    for _ in range(count):
        chain.record(mailbox=mailbox, event=event, actor="command")


# Access


@pytest.mark.parametrize("who", ["a stranger", "viewer", "proposer", "approver"])
def test_only_managers_see_the_audit_of_a_mailbox(
    sent: PendingAction, mailbox: Mailbox, charlie: User, who: str
) -> None:
    if who != "a stranger":
        Membership.objects.create(mailbox=mailbox, user=charlie, role=who)
    window = browser(charlie)

    for query in ("", f"?mailbox={mailbox.pk}", f"?action={sent.pk}"):
        text = page(window, query)
        assert "There is no audit for you to see" in text
        assert numbers(text) == []
    assert '"/audit/"' not in window.get("/").content.decode()
    assert window.get("/audit/export/").status_code == 404
    assert window.post("/audit/verify/").status_code == 404


def test_no_page_or_export_holds_foreign_events(
    sent: PendingAction, mailbox: Mailbox, foreign_mailbox: Mailbox, charlie: User
) -> None:
    many(foreign_mailbox, 2)
    many(None, 1)

    assert numbers(page(charlie)) == [2, 1]
    assert numbers(page(charlie, f"?action={sent.pk}")) == []
    window, seal = browser(charlie), r'name="csrfmiddlewaretoken" value="\w+"'
    foreign, unknown = (
        re.sub(seal, "", page(window, f"?mailbox={key}")) for key in (mailbox.pk, NO_MAILBOX)
    )
    assert foreign.replace(str(mailbox.pk), str(NO_MAILBOX)) == unknown
    assert "You manage no such mailbox" in unknown
    assert {line["mailbox"] for line in exported(charlie)} == {foreign_mailbox.address}
    assert browser(charlie).get(f"/audit/export/?mailbox={mailbox.pk}").status_code == 302
    assert mailbox.address not in verified(charlie)
    assert page(charlie, "?who=alice@lovelace.example").count("Nothing matches") == 1


def test_manager_sees_events_even_of_a_disconnected_mailbox(
    sent: PendingAction, alice: User, mailbox: Mailbox
) -> None:
    Mailbox.objects.filter(pk=mailbox.pk).update(status=Mailbox.Status.DISCONNECTED)
    text = page(alice)

    assert numbers(text) == [4, 3, 2, 1]
    for words in (
        "Carried out",
        "A worker took it up",
        "Approved",
        "Proposed",
        "agent, a token of alice@lovelace.example",
        "<bdi>alice@lovelace.example</bdi>",
        "a worker",
        f'href="/actions/{sent.pk}/"',
        f"{sent.digest[:10]}…",
    ):
        assert words in text, words
    assert 'href="/audit/"' in browser(alice).get("/").content.decode()


def test_staff_also_see_events_without_a_mailbox(sent: PendingAction, charlie: User) -> None:
    many(None, 3)
    User.objects.filter(pk=charlie.pk).update(is_staff=True)

    assert numbers(page(charlie)) == numbers(page(charlie, "?mailbox=none")) == [3, 2, 1]
    assert {line["chain"] for line in exported(charlie)} == {str(NO_MAILBOX)}
    assert "All its 3 events are what they were" in verified(charlie)


def test_unknown_names_are_shown_as_stored(alice: User, mailbox: Mailbox) -> None:
    for actor in ("user:999", "user:x", "token:none", f"user:{'9' * 40}", "somebody"):
        chain.record(mailbox=mailbox, event="of_old", actor=actor)
    chain.record(
        mailbox=mailbox,
        event="role_changed",
        actor=f"user:{alice.pk}",
        member=alice.pk,
        role="viewer",
    )
    with guards.lifted(connection):
        AuditEvent.objects.filter(sequence=1).update(data=["<b>odd</b>", {"member": 7}])
    answer = browser(alice).get("/audit/").content.decode()

    assert numbers(answer) == [6, 5, 4, 3, 2, 1]
    assert all(
        actor in answer for actor in ("user:999", "user:x", "token:none", "somebody", "of_old")
    )
    assert "<b>odd" not in answer
    assert answer.count("<bdi>alice@lovelace.example</bdi>") == 2


# Filters and pages


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("event=approved", [2]), ("kind=worker", [4, 3]), ("kind=token", [1]), ("kind=user", [2]), ("kind=command", []),
        ("who=alice@lovelace.example", [2, 1]), ("who=ALICE@lovelace.example&kind=user", [2]), ("who=agent", [1]),
        ("who=nobody@nowhere.example", []), ("event=approved&kind=worker", []), ("who=alice", []),
    ],
)  # fmt: skip
def test_filters_leave_only_matching_events(
    sent: PendingAction, alice: User, query: str, expected: list[int]
) -> None:
    assert numbers(page(alice, f"?{query}")) == expected
    assert [line["sequence"] for line in exported(alice, query)] == expected[::-1]


def test_mailbox_and_action_can_be_filtered(
    sent: PendingAction, alice: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    many(second, 2)

    assert numbers(page(alice)) == [2, 1, 4, 3, 2, 1]
    assert numbers(page(alice, f"?mailbox={second.pk}")) == [2, 1]
    assert numbers(page(alice, f"?action={sent.pk}")) == [4, 3, 2, 1]
    assert numbers(page(alice, f"?action={sent.pk}&mailbox={second.pk}")) == []


def test_days_follow_the_time_zone_of_the_reader(alice: User, mailbox: Mailbox) -> None:
    many(mailbox, 2)
    late = timezone.now().replace(year=2026, month=3, day=10, hour=23, minute=30)
    with guards.lifted(connection):
        AuditEvent.objects.filter(sequence=1).update(at=late)
        AuditEvent.objects.filter(sequence=2).update(at=late + timedelta(days=3))
    window = browser(alice)

    assert numbers(page(window, "?since=2026-03-10&until=2026-03-10")) == [1]
    window.cookies["zone"] = "Europe/Berlin"
    assert numbers(page(window, "?since=2026-03-10&until=2026-03-10")) == []
    assert numbers(page(window, "?since=2026-03-11&until=2026-03-11")) == [1]
    assert numbers(page(window, "?until=2026-03-11")) == [1]
    assert numbers(page(window, "?since=2026-03-12")) == [2]
    for days, found in (("since=2026-03-11&until=2026-03-11", [1]), ("since=2026-03-12", [2])):
        lines = window.get(f"/audit/export/?{days}&format=jsonl").getvalue().splitlines()
        assert [json.loads(line)["sequence"] for line in lines] == found


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("event=none", "Nothing of that name is ever recorded"), ("kind=ghost", "Nobody of that kind"),
        ("mailbox=none", "You manage no such mailbox"), ("mailbox=%00", "You manage no such mailbox"),
        ("action=7", "not the id of an action"), ("since=yesterday", "not a day"), ("until=9999-12-31", "not a day"),
        ("since=0001-01-01", "not a day"), ("who=%00", "Null characters"), ("who=" + "x" * 300, "at most 254"),
    ],
)  # fmt: skip
def test_unreadable_filter_is_reported_and_finds_nothing(
    sent: PendingAction, alice: User, query: str, said: str
) -> None:
    window = browser(alice)
    window.cookies["zone"] = "Pacific/Kiritimati"
    text = page(window, f"?{query}")

    assert said in text
    assert numbers(text) == []
    export = window.get(f"/audit/export/?{query}")
    assert (
        export.status_code,
        said in page(window, export["Location"].removeprefix("/audit/")),
    ) == (302, True)


@pytest.mark.parametrize(
    "cursor", ["x", "2026-01-01~1", "2026-01-01T00:00:00+00:00~x", "0001-01-01T00:00:00%2B23:00~1"]
)
def test_unknown_cursor_leads_to_the_first_page(alice: User, mailbox: Mailbox, cursor: str) -> None:
    answer = browser(alice).get(f"/audit/?event=paused&cursor={cursor}")

    assert (answer.status_code, answer["Location"]) == (302, "/audit/?event=paused")


def test_pages_hold_each_event_once_while_new_ones_arrive(
    alice: User, mailbox: Mailbox, foreign_mailbox: Mailbox, server: MemoryServer
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    for _ in range(60):
        many(mailbox, 1)
        many(second, 1)
        many(foreign_mailbox, 1)
    with guards.lifted(connection):  # at the same moment: then in the order of writing
        AuditEvent.objects.filter(chain=second.pk).update(at=timezone.now())
    there = set(
        AuditEvent.objects.exclude(chain=foreign_mailbox.pk).values_list(
            "chain__mailbox__address", "sequence"
        )
    )
    window, query = browser(alice), ""
    seen: list[tuple[str, int]] = []
    row = r">#(\d+)</td>.*?<td><bdi>([^<]+@[^<]+)</bdi></td>"
    for _ in range(3):
        text = page(window, query)
        seen += [(box, int(n)) for n, box in re.findall(row, text)]
        many(mailbox, 7)
        following = re.search(r'href="/audit/(\?[^"]+)" rel="next"', text)
        query = following[1] if following else ""

    assert not query
    assert len(seen) == 120
    assert set(seen) == there


def test_search_says_how_far_it_looked_and_continues(
    alice: User, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "WINDOW", 20)
    many(mailbox, 1, "resumed")
    many(mailbox, 30)
    window = browser(alice)
    text = page(window, "?event=resumed")

    assert numbers(text) == []
    assert "looked through 20 events so far" in text
    further = re.search(r'href="/audit/(\?[^"]+)">Look further', text)
    assert further
    assert numbers(page(window, further[1])) == [1]


def test_page_is_read_by_index_among_many_events(
    sent: PendingAction,
    alice: User,
    mailbox: Mailbox,
    foreign_mailbox: Mailbox,
    server: MemoryServer,
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    window = browser(alice)
    page(window)
    with CaptureQueriesContext(connection) as few:
        page(window)
    for box, count in ((mailbox, 60), (second, 30), (foreign_mailbox, 200)):
        many(box, count)
    day = timezone.localdate()
    cursor = f"{timezone.now().isoformat()}~999999".replace("+", "%2B")
    for query in (
        "",
        f"?since={day}",
        f"?action={sent.pk}",
        f"?mailbox={second.pk}&cursor={cursor}",
        "?kind=worker",
    ):
        with CaptureQueriesContext(connection) as queries:
            page(window, query)
        assert len(queries) <= len(few)
        with transaction.atomic(), connection.cursor() as cursor_:
            if connection.vendor == "postgresql":
                # A full scan of so small a table is right. From now on the planner scans only if no
                # index can serve.
                cursor_.execute("SET LOCAL enable_seqscan = off")
            for asked in (query["sql"] for query in queries if query["sql"].startswith("SELECT")):
                assert "OFFSET" not in asked
                assert not ("COUNT(" in asked and "auditevent" in asked)
                explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
                cursor_.execute(explain + asked.replace("%", "%%"))
                plan = "\n".join(str(row) for row in cursor_.fetchall())
                assert not re.search(
                    r"SCAN approvals_auditevent|Seq Scan on approvals_auditevent", plan
                ), (asked, plan)


# The export


def test_export_holds_all_that_verification_needs(
    sent: PendingAction, alice: User, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "BATCH", 3)
    previous = "0" * 64
    lines = exported(alice)
    for number, line in enumerate(lines, start=1):
        assert (line["sequence"], line["previous"]) == (number, previous)
        said = [
            line[name]
            for name in (
                "chain",
                "sequence",
                "at",
                "event",
                "action_id",
                "actor",
                "data",
                "previous",
            )
        ]
        assert chain.seal(json.dumps(said, sort_keys=True, separators=(",", ":"))) == line["hash"]
        previous = line["hash"]
    assert previous == AuditChain.objects.get(mailbox=mailbox).head
    assert [line["who"] for line in lines][:2] == [
        "agent, a token of alice@lovelace.example",
        alice.email,
    ]

    answer = browser(alice).get("/audit/export/?event=approved")
    assert re.fullmatch(
        r'attachment; filename="mailhub-audit-[\d-]+\.csv"', answer["Content-Disposition"]
    )
    [row] = csv.DictReader(StringIO(b"".join(answer).decode()))
    told = {**lines[1], "sequence": "2", "data": json.dumps(lines[1]["data"], sort_keys=True)}
    assert row == told
    assert browser(alice).get("/audit/export/?format=exe").status_code == 404


def test_no_cell_of_the_export_is_a_formula(alice: User, server: MemoryServer) -> None:
    mailbox = make_mailbox("+sum@lovelace.example", server, alice)
    for name in ("=1+1", "-1", "@sum", "+1", "\t=1"):
        make_api(alice, mailbox, name=name)
        chain.record(
            mailbox=mailbox, event="paused", actor=f"token:{ApiToken.objects.get(name=name).pk}"
        )

    answer = browser(alice).get("/audit/export/")
    rows = list(csv.DictReader(StringIO(b"".join(answer).decode())))

    assert len(rows) == 5
    assert {row["mailbox"] for row in rows} == {"'+sum@lovelace.example"}
    assert not [
        cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@", "\t"))
    ]


def test_export_streams_over_asgi_too(
    sent: PendingAction, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "BATCH", 2)

    async def pieces() -> list[bytes]:
        client = AsyncClient()
        await client.aforce_login(alice)
        answer: Any = await client.get("/audit/export/?format=jsonl")
        return [piece async for piece in answer]

    got = async_to_sync(pieces)()
    assert [len(piece.splitlines()) for piece in got if piece] == [2, 2]


# Verify now


def by_force(change: Callable[[], Any]) -> None:
    """Change the database without its guards, as an attacker with access to it."""
    with guards.lifted(connection):
        change()


@pytest.mark.parametrize(
    ("sequence", "change", "said"),
    [
        (2, {"actor": "user:0"}, "Event 2 was altered: it does not fit its hash"),
        (2, None, "Event 2 was removed: 1 missing"),
        (4, None, "Event 4 and what came after it was cut off: 1 missing at the end"),
    ],
)
def test_button_names_the_broken_chain_and_the_problem(
    sent: PendingAction,
    alice: User,
    server: MemoryServer,
    sequence: int,
    change: dict[str, Any] | None,
    said: str,
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    many(second, 5)
    empty = make_mailbox("third@lovelace.example", server, alice)
    assert verified(alice).count("events are what they were") == 2
    event = AuditEvent.objects.filter(chain__mailbox__address=alice.email, sequence=sequence)
    by_force(lambda: event.update(**change) if change else event.delete())

    text = verified(alice)

    assert f"{alice.email} It is not what it was." in text
    assert said in text
    assert f"{second.address} whole All its 5 events are what they were" in text
    assert f"{empty.address} Nothing has happened in it yet" in text


def test_button_finds_problems_only_external_heads_show(
    sent: PendingAction, alice: User, foreign_mailbox: Mailbox, charlie: User
) -> None:
    many(foreign_mailbox, 1)
    proof.anchor()

    def written_anew() -> None:
        previous = "0" * 64
        for link in AuditEvent.objects.filter(chain=foreign_mailbox.pk):
            link.actor, link.previous = "user:0", previous
            link.hash = previous = chain.hash_of(link)
            link.save()
        AuditChain.objects.filter(mailbox=foreign_mailbox).update(head=previous)

    by_force(written_anew)

    assert "Event 1 was rewritten: another event was anchored here" in verified(charlie)
    assert "All its 4 events are what they were" in verified(alice)


def test_unreadable_head_line_is_reported_and_harmless(
    sent: PendingAction, alice: User, charlie: User
) -> None:
    proof.anchor()
    with proof.heads_file().open("a") as file:
        file.write('{"half a line\n[]\n')
    User.objects.filter(pk=charlie.pk).update(is_staff=True)

    assert "All its 4 events are what they were" in verified(alice)
    assert verified(charlie).count("a line of the file of heads is not ours") == 2


def test_newest_events_of_a_long_chain_are_verified(
    alice: User, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "AT_MOST", 5)
    many(mailbox, 4)
    proof.anchor()
    many(mailbox, 8)
    said = "Its newest 5 events are what they were. 7 older ones were not looked at"

    assert said in verified(alice)
    by_force(lambda: AuditEvent.objects.filter(sequence=3).update(actor="user:0"))
    assert said in verified(alice)
    by_force(lambda: AuditEvent.objects.filter(sequence=8).delete())
    assert "Event 8 was removed: 1 missing" in verified(alice)


def test_get_request_verifies_and_changes_nothing(sent: PendingAction, alice: User) -> None:
    anchored = proof.heads_file().read_text()
    assert browser(alice).get("/audit/verify/").status_code == 405
    page(alice)
    exported(alice)
    assert AuditEvent.objects.count() == 4
    assert proof.heads_file().read_text() == anchored


# Words


def recorded() -> set[str]:
    """Return every text that the code passes as `event`, or first to `record_event`."""
    found: set[str] = set()
    for path in (
        path
        for part in ("accounts", "approvals", "tools", "mailhub")
        for path in (ROOT / part).rglob("*.py")
    ):
        if path.name == "guard_rules.py":  # there an event is the operation of a trigger
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            said: list[ast.AST] = []
            if isinstance(node, ast.Call):
                said = [keyword.value for keyword in node.keywords if keyword.arg == "event"]
                if isinstance(node.func, ast.Name) and node.func.id == "record_event":
                    said.append(node.args[0])
            elif isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "event" for t in node.targets
            ):
                said = [node.value]
            found |= {text for each in said for text in _texts(each)}
    return found


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        if ast.unparse(node) == "f'{SECURITY}.{link.event}'":
            return  # a webhook's name for an event that is recorded elsewhere
        assert ast.unparse(node) == "f'outcome_{outcome.verdict}'"
        yield from (f"outcome_{verdict}" for verdict in get_args(Verdict))


def test_every_recorded_event_has_words() -> None:
    assert recorded() == set(audit_words.WORDS)
    assert len(set(map(str, audit_words.WORDS.values()))) == len(audit_words.WORDS)
