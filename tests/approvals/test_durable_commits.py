"""How many durable commits each step makes: each one waits for a disk."""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection
from psycopg.pq import Trace

from accounts.access import request_log
from approvals.gate import settle
from approvals.gate.execute import execute
from approvals.models import PendingAction
from tests.conftest import HELLO, Api, Reviewer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres_only]

TEXT = re.compile(r'^F\t\d+\t(?:Query\t|Parse\t "[^"]*") "(.*)"(?: \d+)*$', re.MULTILINE)
WRITES = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM)\b|FOR (NO KEY )?UPDATE")
MOST = {
    "propose": 1,
    "preview": 0,
    "approve": 1,
    "execute and settle": 3,
    "list_emails": 0,
    "search_emails": 0,
    "queue page": 0,
    "review page": 0,
}


@dataclass
class Traffic:
    """The statements of a call, and its transactions that wrote and waited for the disk."""

    statements: list[str] = field(default_factory=list)
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
    found.commits = _count_durable(found.statements)


def _count_durable(statements: list[str]) -> int:
    """Return the number of transactions that wrote or locked a row and waited for the disk."""
    count, inside, wrote, soon = 0, False, False, False
    for text in statements:
        if text.startswith("BEGIN"):
            inside, wrote, soon = True, False, False
        elif text.startswith("SET LOCAL synchronous_commit"):
            soon = True
        elif text.startswith(("COMMIT", "ROLLBACK")) and "TO SAVEPOINT" not in text:
            count += wrote and not soon and text.startswith("COMMIT")
            inside = wrote = False
        elif WRITES.search(text):
            wrote = inside
            count += not inside
    return count


@pytest.fixture(autouse=True)
def _no_log(settings: Any) -> Iterator[None]:
    settings.MAILHUB_REQUEST_LOG_SECONDS = 30  # written by a thread, for many requests at once
    yield
    request_log.WRITER.flush()


@pytest.mark.goal("N2")
def test_steps_make_few_durable_commits(api: Api, reviewer: Reviewer) -> None:
    ids: list[str] = []

    def propose() -> None:
        ids.append(api.propose(subject=f"Offer {len(ids)}"))

    def send(action_id: str) -> None:
        action = PendingAction.objects.get(pk=action_id)
        with traced() as table["execute and settle"]:
            assert execute(action.pk, worker="test")
            settle.settle_one(action.pk)
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

    assert {name: traffic.commits for name, traffic in table.items()} == MOST, table
