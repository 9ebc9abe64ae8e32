"""How often each step waits for PostgreSQL, and how many durable commits it makes.

A round trip takes up to a millisecond on a network however fast the machine is, and a durable
commit waits for a disk. Both are counted in the trace of the protocol, so nothing is left out: not
BEGIN, not COMMIT, not the savepoints.
"""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from psycopg.pq import Trace

from accounts.access import request_log
from accounts.infra.compiled_sql import make_all
from approvals.models import PendingAction
from approvals.worker import settling
from approvals.worker.execution import execute
from tests.conftest import HELLO, Api, Reviewer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres_only]

# The client waits after a simple query, and after statements that end with one of these messages.
MESSAGES = re.compile(r"^F\t\d+\t(Query|Execute|Sync|Flush)\b", re.MULTILINE)
TEXT = re.compile(r'^F\t\d+\t(?:Query\t|Parse\t "[^"]*") "(.*)"(?: \d+)*$', re.MULTILINE)
WRITES = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM)\b|FOR (NO KEY )?UPDATE")
# The most round trips and durable commits of each step; the goals are beside them.
LIMITS = {
    "propose": (6, 1),  # 6, 1
    "preview": (3, 0),  # 3, 0
    "approve": (10, 1),  # 8, 1
    "execute and settle": (16, 3),  # 14, 3
    "list_emails": (2, 0),  # 2, 0
    "search_emails": (2, 0),  # 2, 0
    "queue page": (8, 0),  # 8, 0
    "review page": (10, 0),  # 10, 0
}


@dataclass
class Traffic:
    """The statements of a call, its round trips, and its transactions that wrote."""

    statements: list[str] = field(default_factory=list)
    round_trips: int = 0
    commits: int = 0


@contextmanager
def traced() -> Iterator[Traffic]:
    """Yield the traffic of the block on this thread's connection."""
    connection.ensure_connection()
    client = connection.connection
    # A repeated statement is prepared once, which would count as one more.
    kept, client.prepare_threshold = client.prepare_threshold, None
    found = Traffic()
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        client.pgconn.trace(file.fileno())
        client.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        try:
            yield found
        finally:
            client.pgconn.untrace()
            client.prepare_threshold = kept
        file.seek(0)
        text = file.read()
    assert connection.connection is client, "the call has used one connection"
    found.statements = TEXT.findall(text)
    found.round_trips = _count_waits(MESSAGES.findall(text))
    found.commits = _count_durable(found.statements)


def _count_waits(messages: list[str]) -> int:
    """Return how often the client waited; at the end of a pipeline it asks twice for one answer."""
    twice = sum(pair == ("Sync", "Flush") for pair in pairwise(messages))
    return len(messages) - messages.count("Execute") - twice


def _count_durable(statements: list[str]) -> int:
    """Return the number of transactions that wrote or locked a row and waited for the disk."""
    count, inside, wrote, soon = 0, False, False, False
    for text in statements:
        if text.startswith("BEGIN"):
            inside, wrote = True, False
        elif text.startswith("SELECT set_config('synchronous_commit', 'off'"):
            soon = True  # the next statement commits with it, and does not wait for the disk
        elif text.startswith(("COMMIT", "ROLLBACK")) and "TO SAVEPOINT" not in text:
            count += wrote and text.startswith("COMMIT")
            inside = wrote = False
        elif WRITES.search(text):
            wrote = inside
            count += not inside and not soon
            soon = False
    return count


@pytest.fixture(autouse=True)
def _no_log(settings: Any) -> Iterator[None]:
    settings.MAILHUB_REQUEST_LOG_SECONDS = 30  # written by a thread, for many requests at once
    yield
    request_log.WRITER.flush()


@pytest.mark.goal("N1", "N2")
def test_steps_take_few_round_trips_and_commits(api: Api, reviewer: Reviewer) -> None:
    make_all()
    ids: list[str] = []

    def propose() -> None:
        ids.append(api.propose(subject=f"Offer {len(ids)}"))

    def send(action_id: str) -> None:
        action = PendingAction.objects.get(pk=action_id)
        with traced() as table["execute and settle"]:
            assert execute(action.pk, worker="test")
            settling.settle_one(action.pk)
        action.refresh_from_db()
        assert (action.status, action.settle_at) == ("succeeded", None)

    def approve(action_id: str) -> None:
        reviewer.page(action_id)
        action = PendingAction.objects.get(pk=action_id)
        fields = {
            "digest": action.digest,
            "revision": action.revision,
            "csrfmiddlewaretoken": reviewer.client.cookies["csrftoken"].value,
        }
        with traced() as table["approve"]:
            answer = reviewer.client.post(f"/actions/{action_id}/approve/", fields)
        assert answer.status_code == 302

    table: dict[str, Traffic] = {}
    steps: dict[str, Callable[[], Any]] = {
        "propose": propose,
        "preview": lambda: api.tool("send_email", **HELLO, confirm=False),
        "list_emails": lambda: api.tool("list_emails"),
        "search_emails": lambda: api.tool("search_emails", query="Hello"),
        "queue page": lambda: reviewer.client.get("/"),
        "review page": lambda: reviewer.page(ids[-1]),
    }
    for _ in range(2):  # the first time fills the caches
        for name, step in steps.items():
            with traced() as table[name]:
                step()
        approve(ids[0])
        send(ids.pop(0))

    for name, traffic in table.items():
        print(f"\n{name}: {traffic.round_trips} round trips, {traffic.commits} commits")  # noqa: T201
        print(*traffic.statements, sep="\n")  # noqa: T201
    assert table.keys() == LIMITS.keys()
    for name, (round_trips, commits) in LIMITS.items():
        assert table[name].round_trips <= round_trips, name
        assert table[name].commits <= commits, name
