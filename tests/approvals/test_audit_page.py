"""The audit page: its content for each reader, its filters, its pages and its words."""

import ast
import base64
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import get_args

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Mailbox, Membership, User
from approvals import guards
from approvals.audit import chain, log
from approvals.audit import words as audit_words
from approvals.core.cursors import write_cursor
from approvals.core.types import Verdict
from approvals.models import AuditEvent, PendingAction
from approvals.models.audit import NO_MAILBOX
from tests.approvals.audit_pages import exported, many, numbers, own_heads, page, sent, verified
from tests.conftest import make_mailbox
from tests.support.people.browser import browser
from tests.support.plans import plan_of
from tests.support.servers.memory import MemoryServer
from tests.support.sources import parsed

__all__ = ["own_heads", "sent"]
pytestmark = pytest.mark.django_db(transaction=True)


# Access


@pytest.mark.parametrize("who", ["a stranger", "approver"])
def test_only_managers_see_the_audit_of_a_mailbox(
    sent: PendingAction, mailbox: Mailbox, charlie: User, who: str
) -> None:
    if who == "approver":
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
    assert "You do not manage this mailbox" in unknown
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
        "Accepted by the server",
        "Claimed by a worker",
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
    assert "All 3 events are unchanged" in verified(charlie)


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
    with guards.lift_guards(connection):
        AuditEvent.objects.filter(sequence=1).update(data=["<b>odd</b>", {"member": 7}])
    answer = browser(alice).get("/audit/").content.decode()

    assert numbers(answer) == [6, 5, 4, 3, 2, 1]
    assert all(
        actor in answer for actor in ("user:999", "user:x", "token:none", "somebody", "of_old")
    )
    assert "<b>odd" not in answer
    assert answer.count("<bdi>alice@lovelace.example</bdi>") == 2


# Filters and pages


def test_filters_leave_only_matching_events(sent: PendingAction, alice: User) -> None:
    for query, expected in (
        ("event=approved", [2]), ("kind=worker", [4, 3]), ("kind=token", [1]), ("kind=user", [2]), ("kind=command", []),
        ("who=alice@lovelace.example", [2, 1]), ("who=ALICE@lovelace.example&kind=user", [2]), ("who=agent", [1]),
        ("who=nobody@nowhere.example", []), ("event=approved&kind=worker", []), ("who=alice", []),
    ):  # fmt: skip
        assert numbers(page(alice, f"?{query}")) == expected, query
        assert [line["sequence"] for line in exported(alice, query)] == expected[::-1], query


def test_mailbox_and_action_can_be_filtered(
    sent: PendingAction, alice: User, server: MemoryServer
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
    with guards.lift_guards(connection):
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


def test_unreadable_filter_is_reported_and_finds_nothing(sent: PendingAction, alice: User) -> None:
    window = browser(alice)
    window.cookies["zone"] = "Pacific/Kiritimati"
    for query, said in (
        ("event=none", "No event has this name"), ("kind=ghost", "Choose one from the list"),
        ("mailbox=none", "You do not manage this mailbox"),
        ("action=7", "Enter the ID of an action"), ("since=yesterday", "Enter a date"),
        ("until=9999-12-31", "Enter a date"),
        ("since=0001-01-01", "Enter a date"), ("who=" + "x" * 300, "at most 254"),
    ):  # fmt: skip
        text = page(window, f"?{query}")
        assert said in text
        assert numbers(text) == [], query
        export = window.get(f"/audit/export/?{query}")
        assert export.status_code == 302, query
        assert said in page(window, export["Location"].removeprefix("/audit/"))


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_unknown_cursor_leads_to_the_first_page(alice: User, mailbox: Mailbox) -> None:
    for cursor in (
        *("x", "%C3%A9", "2026-01-01~1"),
        *(encoded("2026-01-01~1"), encoded("2026-01-01T00:00:00+00:00~x")),
        encoded("0001-01-01T00:00:00+23:00~1"),
    ):
        answer = browser(alice).get(f"/audit/?event=paused&cursor={cursor}")
        assert (answer.status_code, answer["Location"]) == (302, "/audit/?event=paused"), cursor


def test_pages_hold_each_event_once_while_new_ones_arrive(
    alice: User, mailbox: Mailbox, foreign_mailbox: Mailbox, server: MemoryServer
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    for _ in range(60):
        many(mailbox, 1)
        many(second, 1)
        many(foreign_mailbox, 1)
    with guards.lift_guards(connection):  # at the same moment: then in the order of writing
        AuditEvent.objects.filter(chain=second.pk).update(at=timezone.now())
    there = set(
        AuditEvent.objects.exclude(chain=foreign_mailbox.pk).values_list(
            "chain__mailbox__address", "sequence"
        )
    )
    window, query = browser(alice), ""
    seen: list[tuple[str, int]] = []
    row = r"(?s)>#(\d+)</td>.*?<td>\s*<bdi>([^<]+@[^<]+)</bdi>\s*</td>"
    for _ in range(3):
        text = page(window, query)
        seen += [(box, int(n)) for n, box in re.findall(row, text)]
        many(mailbox, 7)
        following = re.search(r'href="/audit/(\?[^"]+)"\s+rel="next"', text)
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
    assert "checked 20 events so far" in text
    further = re.search(r'href="/audit/(\?[^"]+)"\s*>Keep searching', text)
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
    yesterday = timezone.localdate() - timedelta(days=1)
    cursor = write_cursor(timezone.now(), "999999")
    for query in (
        "",
        f"?since={yesterday}",
        f"?action={sent.pk}",
        f"?mailbox={second.pk}&cursor={cursor}",
        "?kind=worker",
    ):
        with CaptureQueriesContext(connection) as queries:
            page(window, query)
        assert len(queries) <= len(few)
        for asked in (query["sql"] for query in queries if query["sql"].startswith("SELECT")):
            assert "OFFSET" not in asked
            assert not ("COUNT(" in asked and "auditevent" in asked)
            plan = plan_of(asked)
            assert not re.search(
                r"SCAN approvals_auditevent|Seq Scan on approvals_auditevent", plan
            ), (asked, plan)


# Words


def recorded() -> set[str]:
    """Return every text that the code passes as `event`, or first to `record_event`, or keeps in a
    table of events.
    """
    found: set[str] = set()
    for path, tree in parsed(r"\bevent\b|\brecord_event\b"):
        if path.parts[-2:] == (
            "guards",
            "rules.py",
        ):  # there an event is the operation of a trigger
            continue
        for node in ast.walk(tree):
            said: list[ast.AST] = []
            if isinstance(node, ast.Call):
                said = [keyword.value for keyword in node.keywords if keyword.arg == "event"]
                if isinstance(node.func, ast.Name) and node.func.id == "record_event":
                    said.append(node.args[0])
            elif isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "event" for t in node.targets
            ):
                said = [node.value]
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                is_table = getattr(node.targets[0], "id", "").endswith("_EVENTS")
                said = [*node.value.values] if is_table else []
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
    # In the audit of installations that had them.
    earlier = {"deputy_named", "deputy_ended"}
    assert recorded() == set(audit_words.WORDS) - earlier
    assert len(set(map(str, audit_words.WORDS.values()))) == len(audit_words.WORDS)
