"""The live hub: every event reaches the pages and programs that wait, at once on PostgreSQL."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID, uuid4

import httpx2
import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Mailbox
from approvals import guards
from approvals.audit import chain, feed
from approvals.audit.feed import Feed, last_event
from approvals.live.events import read_mark, write_mark
from approvals.live.hub import HUB, Hub, Listener
from approvals.models import AuditChain, AuditEvent
from mailhub.asgi import application
from tests.conformance.served import served
from tests.conftest import Api, Reviewer
from tests.support.processes.programs import until

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 30


def add_events(mailbox: Mailbox, number: int) -> list[UUID]:
    """Add so many events of other actions to the chain at once, and return the actions."""
    AuditChain.objects.get_or_create(pk=mailbox.pk, defaults={"mailbox": mailbox})
    after = AuditEvent.objects.filter(chain=mailbox.pk).count()
    actions = [uuid4() for _ in range(number)]
    AuditEvent.objects.bulk_create(
        AuditEvent(
            chain_id=mailbox.pk,
            mailbox=mailbox,
            sequence=after + place,
            at=timezone.now(),
            event="expired",
            action_id=action,
            actor="worker",
            previous=uuid4().hex,
            hash="",
        )
        for place, action in enumerate(actions, 1)
    )
    return actions


@contextmanager
def another_connection(*, autocommit: bool = False) -> Iterator[psycopg.Connection]:
    """Yield a connection beside Django's, to the same database."""
    parameters = connection.get_connection_params()
    for name in ("cursor_factory", "context"):
        parameters.pop(name)
    with psycopg.connect(**parameters, autocommit=autocommit) as beside:
        yield beside


def insert_event(beside: psycopg.Connection, mailbox: Mailbox) -> int:
    """Insert an event of a mailbox whose chain has none; the block of the connection commits it."""
    row = beside.execute(
        "INSERT INTO approvals_auditevent"
        " (chain_id, mailbox_id, sequence, at, event, action_id, actor, data, previous, hash)"
        " VALUES (%(box)s, %(box)s, 1, now(), 'paused', NULL, 'command', '{}', 'x', '') RETURNING id",
        {"box": mailbox.pk},
    ).fetchone()
    assert row is not None
    return int(row[0])


def read_ids(events: Feed) -> list[int]:
    return [pk for rows in events.read() for pk, _, _ in rows]


def test_feed_reads_a_burst_at_once_and_each_event_once(mailbox: Mailbox) -> None:
    events = Feed(last_event())
    add_events(mailbox, 2 * feed.BATCH + 5)
    wanted = list(AuditEvent.objects.order_by("pk").values_list("pk", flat=True))
    assert read_ids(events)[-len(wanted) :] == wanted
    assert read_ids(events) == []


@pytest.mark.postgres_only
def test_feed_finds_an_event_that_is_committed_late(
    mailbox: Mailbox, foreign_mailbox: Mailbox
) -> None:
    AuditChain.objects.get_or_create(pk=foreign_mailbox.pk, defaults={"mailbox": foreign_mailbox})
    with another_connection() as slow:
        early = insert_event(slow, foreign_mailbox)
        add_events(mailbox, 300)
        follows, begins_later = Feed(early - 1), Feed(early + 50)
        assert len(read_ids(follows)) == 300
        assert early not in read_ids(begins_later)
    assert (read_ids(follows), read_ids(begins_later)) == ([early], [early])


@pytest.mark.postgres_only
def test_decision_wakes_a_program_by_notification(
    api: Api, reviewer: Reviewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "SAFETY_SECONDS", 3600.0)  # the next look would come too late
    action = api.propose()
    with served(application) as url, ThreadPoolExecutor(1) as beside:
        headers = {"Authorization": f"Bearer {api.secret}"}
        address = f"{url}/api/v1/actions/{action}?wait=60"
        answer = beside.submit(httpx2.get, address, headers=headers, timeout=80)
        until(lambda: bool(HUB._waiters))
        reviewer.decide(action, "reject")
        assert answer.result(SECONDS).json()["state"] == "rejected"
    chain.record(mailbox=None, event="paused", actor="command")  # ends the hub's last wait


@pytest.mark.postgres_only
def test_one_of_several_transactions_notifies_without_content(
    mailbox: Mailbox, foreign_mailbox: Mailbox
) -> None:
    AuditChain.objects.get_or_create(pk=foreign_mailbox.pk, defaults={"mailbox": foreign_mailbox})
    with another_connection(autocommit=True) as listener:
        listener.execute(f"LISTEN {feed.CHANNEL}")
        with another_connection() as ending:
            insert_event(ending, foreign_mailbox)
            ending.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as its COMMIT does
            chain.record(mailbox=mailbox, event="paused", actor="command")
            assert list(listener.notifies(timeout=0.2)) == []
        told = next(listener.notifies(timeout=SECONDS))
        assert told.payload == ""


def test_page_loads_many_changes_in_parts(mailbox: Mailbox, reviewer: Reviewer) -> None:
    since, found, more = write_mark(last_event()), set(), True
    wanted = {str(action) for action in add_events(mailbox, 450)}
    while more:
        told = reviewer.client.get("/live/changes/", {"since": since}).json()
        since, more = told["last"], told["more"]
        found |= set(told["gone"])
    assert found == wanted


@pytest.mark.postgres_only  # on SQLite the ids would go on
def test_open_page_and_feed_go_on_after_a_restore(mailbox: Mailbox, reviewer: Reviewer) -> None:
    add_events(mailbox, 1)
    kept = AuditEvent.objects.get()
    lost = AuditEvent(pk=kept.pk + 1000, chain=kept.chain, mailbox=mailbox, sequence=2)
    lost.at, lost.event, lost.actor, lost.previous = kept.at, "paused", "command", "x"
    lost.save(force_insert=True)
    events, since = Feed(last_event()), write_mark(last_event())
    with guards.lift_guards(connection):
        lost.delete()

    assert read_ids(events) == []
    told = reviewer.client.get("/live/changes/", {"since": since}).json()
    (action,) = add_events(mailbox, 1)

    assert read_ids(events) == [last_event()]
    told = reviewer.client.get("/live/changes/", {"since": told["last"]}).json()
    assert str(action) in told["gone"]


@pytest.mark.postgres_only
def test_stream_names_an_event_that_is_committed_late(mailbox: Mailbox, reviewer: Reviewer) -> None:
    AuditChain.objects.get_or_create(pk=mailbox.pk, defaults={"mailbox": mailbox})
    cookies = {"sessionid": reviewer.client.cookies["sessionid"].value}
    with (
        served(application) as url,
        httpx2.stream("GET", f"{url}/live/", cookies=cookies, timeout=SECONDS) as answer,
    ):
        lines = (line for line in answer.iter_lines() if line.startswith("data:"))
        until(lambda: bool(HUB._listeners))
        with another_connection() as slow:
            early = insert_event(slow, mailbox)
            later = chain.record(mailbox=None, event="paused", actor="command")
            until(lambda: HUB._floor >= last_event())
            assert (later.sequence, last_event() > early) == (1, True)
        assert read_mark(next(lines).removeprefix("data: ")) == early - 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_failed_thread_is_followed_by_another(mailbox: Mailbox) -> None:
    hub, nothing = Hub(), cast(Any, None)
    mine = frozenset({mailbox.pk})
    broken = Listener(person_id=0, mailboxes=mine, loop=nothing, oldest=nothing)
    hub.add(broken, seen=last_event())
    add_events(mailbox, 1)
    until(lambda: not any(each.name == "live" for each in threading.enumerate()))
    hub.remove(broken)
    loop = asyncio.new_event_loop()
    whole = Listener(person_id=0, mailboxes=mine, loop=loop, oldest=asyncio.Queue(1))
    hub.add(whole, seen=last_event())
    add_events(mailbox, 1)
    try:
        loop.run_until_complete(asyncio.wait_for(whole.oldest.get(), SECONDS))
    finally:
        hub.remove(whole)
        until(lambda: not any(each.name == "live" for each in threading.enumerate()))
        loop.close()
