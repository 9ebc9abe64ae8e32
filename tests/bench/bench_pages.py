"""The cost of the lists on the pages with a million actions, against a thousand in the same run.

`make bench` prints it.

BENCH_QUICK=1 uses fewer actions and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import os
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Mailbox, User
from tests.bench.page import write_section
from tests.conftest import Reviewer, make_mailbox
from tests.support.servers.memory import MemoryServer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(1800),
    pytest.mark.postgres_only,
]

QUICK = bool(os.environ.get("BENCH_QUICK"))
FEW, MANY = (1_000, 10_000) if QUICK else (1_000, 1_000_000)
BLOCKS, ROUNDS = (2, 2) if QUICK else (8, 8)
# The address, its name, and how much slower it may be.
LISTS = [("/", "pending", 1.2), ("/?tab=sent", "history", 3.0)]
# Half of them wait, the others are sent. Each has a revision with the data of its row. The owners
# take turns.
ACTIONS = """
INSERT INTO approvals_pendingaction
  (id, kind, tool, mailbox_id, proposer_id, proposer_name, status, revision, digest, message_id, fingerprint,
   approval_round, approvals_needed, approvals_given, rules_version, created_at, expires_at, finished_at, receipt,
   fence, probes, settle_tries, order_seal)
SELECT md5(n::text)::uuid, 'mail.send', 'send_email', (%(mailboxes)s::uuid[])[1 + n %% 5], %(person)s, 'agent',
  CASE WHEN n %% 2 = 0 THEN 'pending' ELSE 'succeeded' END, 1, md5(n::text) || md5(n::text), '<' || n || '@x', n::text,
  1, 1, n %% 2, 0, now() - n * interval '1 second', now() + interval '1 day',
  CASE WHEN n %% 2 = 1 THEN now() - n * interval '1 second' END,
  CASE WHEN n %% 2 = 1 THEN '{"recipient_count": 1}'::jsonb END, 0, 0, 0, ''
FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""
REVISIONS = """
INSERT INTO approvals_revision (action_id, number, author_id, payload, preview, changed, digest, created_at)
SELECT md5(n::text)::uuid, 1, %(person)s, jsonb_build_object('text', repeat('word ', 60)),
  jsonb_build_object('title', 'Offer ' || n, 'excerpt', 'Dear Mira, here is what you asked for.',
    'warnings', '[{"code": "external", "severity": "info", "title": "This leaves your company.", "text": "x"}]'::jsonb,
    'targets', jsonb_build_array(jsonb_build_object(
      'address', 'p' || n || '@northwind.example', 'role', 'to', 'name', '', 'external', true))),
  '[]', md5(n::text) || md5(n::text), now()
FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""


def fill(mailboxes: Sequence[Mailbox], person: User, *, first: int, last: int) -> None:
    with connection.cursor() as cursor:
        # The triggers of the database check each row, which would take too long here.
        cursor.execute("SET session_replication_role = replica")
        its: dict[str, Any] = {
            "mailboxes": [each.pk for each in mailboxes],
            "person": person.pk,
            "first": first,
            "last": last,
        }
        cursor.execute(ACTIONS, its)
        cursor.execute(REVISIONS, its)
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("VACUUM ANALYZE")


def use(database: str) -> None:
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]
    connection.settings_dict["NAME"] = database


@contextmanager
def a_copy() -> Iterator[str]:
    """Copy the database under another name, so that both can be measured in turn. Yield the
    name.
    """
    name = str(connection.settings_dict["NAME"])
    copy = f"{name}_few"
    with connection._nodb_cursor() as cursor:
        use(name)
        cursor.execute(f'CREATE DATABASE "{copy}" TEMPLATE "{name}"')
        try:
            yield copy
        finally:
            use(name)
            cursor.execute(f'DROP DATABASE "{copy}"')


def measured(reviewer: Reviewer, address: str) -> float:
    started = time.perf_counter()
    answer = reviewer.client.get(address)
    taken = (time.perf_counter() - started) * 1000
    assert answer.status_code == 200
    assert answer.content.count(b'id="row-') == 50
    return taken


def read_whole(asked: CaptureQueriesContext) -> list[str]:
    """Return the plans in which a table of actions is scanned from beginning to end."""
    with connection.cursor() as cursor:
        plans = []
        for query in asked.captured_queries:
            if query["sql"].startswith("SELECT"):
                cursor.execute("EXPLAIN " + query["sql"].replace("%", "%%"))
                plans.append("\n".join(row for (row,) in cursor.fetchall()))
    return [
        plan for plan in plans if re.search(r"Seq Scan on approvals_(pendingaction|revision)", plan)
    ]


@pytest.mark.goal("P9")
def test_cost_of_the_lists(
    mailbox: Mailbox,
    alice: User,
    reviewer: Reviewer,
    server: MemoryServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mailboxes = [
        mailbox,
        *(make_mailbox(f"m{n}@lovelace.example", server, alice) for n in range(4)),
    ]
    reviewer.client.get("/")
    fill(mailboxes, alice, first=1, last=FEW)
    many = str(connection.settings_dict["NAME"])
    times: dict[tuple[str, str], list[float]] = {}
    queries: dict[tuple[str, str], int] = {}
    whole: list[str] = []
    with a_copy() as few:
        fill(mailboxes, alice, first=FEW + 1, last=MANY)
        for _ in range(BLOCKS):
            for database in (few, many):
                use(database)
                for address, what, _at_most in LISTS:
                    with CaptureQueriesContext(connection) as asked:
                        # The first request of a new connection is not counted.
                        measured(reviewer, address)
                    queries[what, database] = len(asked)
                    whole += read_whole(asked) if database == many else []
                    times.setdefault((what, database), []).extend(
                        measured(reviewer, address) for _ in range(ROUNDS)
                    )
    lines = [
        "| goal | list | ratio | at most | medians | queries |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for _, what, at_most in LISTS:
        large, small = (statistics.median(times[what, database]) for database in (many, few))
        lines.append(
            f"| P9 | {what}, {MANY:,} actions / {FEW:,} | {large / small:.2f} | {at_most} "
            f"| {large:.1f} ms / {small:.1f} ms | {queries[what, many]} / {queries[what, few]} |"
        )
    with capsys.disabled():
        text = (
            "\n" + "\n".join(lines)
            if QUICK
            else "\n" + write_section("Lists, with a million actions", lines)
        )
        print(text)  # noqa: T201
    assert all(queries[what, many] == queries[what, few] for _, what, _ in LISTS)
    assert QUICK or whole == []  # a full scan of so small a table is right
