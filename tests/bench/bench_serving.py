"""The cost of a request, an approval and an idle mailhub, against a bare Django beside it.

`make bench` prints it.

BENCH_QUICK=1 runs a few rounds and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from accounts.models import ApiToken, User
from approvals.models import PendingAction
from tests.approvals.queues.conftest import (
    Site,
    agent_of,
    broker,
    redis,
    redis_server,
    sandbox,
    sandbox_process,
    site,
)
from tests.bench.bench_sending import approve
from tests.bench.page import write_section
from tests.bench.served import ASKED, Web, bare
from tests.support.processes.proc import proc
from tests.support.processes.programs import MANAGE, environment, session_of, this_test, until
from tests.support.servers.sandbox import SandboxServer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.postgres_only,
    pytest.mark.parametrize("kind", ["database"]),
]
__all__ = ["broker", "redis", "redis_server", "sandbox", "sandbox_process", "site"]


QUICK = bool(os.environ.get("BENCH_QUICK"))
BLOCKS, REQUESTS = (2, 20) if QUICK else (8, 100)
APPROVALS, STARTS, IDLE_SECONDS = (12, 2, 5) if QUICK else (80, 7, 30)
AT_ONCE = 4
HELLO = {
    "to": ["mira@northwind.example"],
    "subject": "Hello",
    "body": "Hello Mira",
    "confirm": True,
}
rows: list[tuple[str, str, str, str]] = []


@contextmanager
def ours(site: Site, door: str) -> Iterator[Web]:
    settings = {name: value for name, value in site.environment.items() if name != "PYTHONPATH"}
    settings |= {"ALLOWED_HOSTS": "127.0.0.1", "MAILHUB_PROPOSALS_PER_MINUTE": 1_000_000}
    with Web(site.home / f"web-{door}", "mailhub", door, **settings) as web:
        until(lambda: web.answers("/api/v1/tools/list_mailboxes"), say=web.log)
        yield web


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def at_once(clients: Sequence[Callable[[Any], bytes]], body: Any) -> None:
    """Send REQUESTS from the clients together, at the same time."""

    def ask(post: Callable[[Any], bytes]) -> None:
        for _ in range(REQUESTS // AT_ONCE):
            post(body)

    with ThreadPoolExecutor(len(clients)) as several:
        list(several.map(ask, clients))


def in_turn(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Return the median seconds of each call; blocks of the first and the second alternate."""
    times: tuple[list[float], list[float]] = ([], [])
    first(), second()
    for _ in range(BLOCKS):
        for call, taken in zip((first, second), times, strict=True):
            taken.append(seconds(call))
    return statistics.median(times[0]), statistics.median(times[1])


@pytest.fixture
def bare_row() -> Iterator[None]:
    """Create the table of the bare application."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE bare_row (id uuid PRIMARY KEY, subject varchar(255) NOT NULL, body text NOT NULL)"
        )
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE bare_row")


@pytest.mark.goal("P8", "P12")
def test_cost_of_a_proposal(site: Site, bare_row: None, tmp_path: Path) -> None:
    site.approved()  # so that the recipient is known, and no lookup in Sent is made
    site.worker()
    until(lambda: not PendingAction.objects.exclude(status="succeeded").exists())
    new = {"subject": HELLO["subject"], "body": HELLO["body"]}
    with ours(site, "wsgi") as mailhub, bare(tmp_path, "wsgi") as least:
        proposing = [
            mailhub.client("/api/v1/tools/send_email", site.api.secret) for _ in range(AT_ONCE)
        ]
        creating = [least.client("/api/rows") for _ in range(AT_ONCE)]
        propose, create = in_turn(lambda: at_once(proposing, HELLO), lambda: at_once(creating, new))
        row(
            "P8",
            "proposals a second / creates of a bare ninja",
            create / propose,
            "≥ 0.5",
            rate(propose),
            rate(create),
        )
        mine, its = mailhub.memory(), least.memory()
        row(
            "P12",
            "memory of a web worker / of a bare ninja's",
            mine / its,
            "1.4",
            mega(mine),
            mega(its),
        )


@pytest.mark.goal("P11")
def test_cost_of_a_tool(site: Site, tmp_path: Path) -> None:
    with ours(site, "asgi") as mailhub, bare(tmp_path, "asgi") as least:
        tool, view = mailhub.client("/mcp", site.api.secret), least.client("/view")
        assert b"alice@lovelace.example" in tool(ASKED)
        ask, plain = in_turn(
            lambda: [tool(ASKED) for _ in range(REQUESTS)],
            lambda: [view(ASKED) for _ in range(REQUESTS)],
        )
    what = "`list_mailboxes` over MCP / a bare JSON view, calls a second"
    row("P11", what, plain / ask, "≥ 0.5", rate(ask), rate(plain))


@pytest.mark.goal("P8")
def test_cost_of_an_approval(site: Site, sandbox: SandboxServer, alice: User) -> None:
    agents = [
        agent_of(alice, sandbox, site.smtp, address=f"alice.{n}@lovelace.example")
        for n in range(AT_ONCE)
    ]
    queue = [
        [PendingAction.objects.get(pk=agent.propose(subject=f"Mail {n}")) for n in range(APPROVALS)]
        for agent in agents
    ]
    with psycopg.connect(str(this_test()["DATABASE_URL"])) as raw:
        raw.execute("CREATE TEMP TABLE waiting (id integer PRIMARY KEY, status text)")
        raw.execute("INSERT INTO waiting SELECT n, 'pending' FROM generate_series(1, 10000) AS n")
        raw.commit()
        numbers = iter(range(1, 10_000))

        def set_and_commit() -> None:
            done = raw.execute(
                "UPDATE waiting SET status = 'approved' WHERE id = %s AND status = 'pending'",
                [next(numbers)],
            )
            assert done.rowcount == 1
            raw.commit()

        said, floor = [], []
        half = APPROVALS // 2
        for action in queue[0][:half]:
            floor.append(seconds(set_and_commit))
            said.append(seconds(partial(approve, action, alice)))
    yes, least = statistics.median(said), statistics.median(floor)
    what = "approvals a second / raw compare-and-set and commit"
    row("P8", what, least / yes, "≥ 0.15", f"{1 / yes:.0f}", f"{1 / least:.0f}")

    def all_of(actions: Iterable[PendingAction]) -> None:
        try:
            for action in actions:
                approve(action, alice)
        finally:
            connection.close()

    quarter = half + half // 2
    alone = seconds(lambda: all_of(action for actions in queue for action in actions[half:quarter]))
    with ThreadPoolExecutor(AT_ONCE) as several:
        together = seconds(
            lambda: list(several.map(all_of, [actions[quarter:] for actions in queue]))
        )
    row("P8", "4 approvers on 4 mailboxes / one", alone / together, "≥ 1.5", "", "")
    assert PendingAction.objects.filter(status="approved").count() == half + 4 * half


@pytest.mark.goal("P11")
def test_response_time_for_a_desktop_client(site: Site, alice: User) -> None:
    token = ApiToken.issue(user=alice, name="desk", scopes=["mail:read"], mailboxes=[])[1]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    }
    settings = environment(site.home, {**site.environment, "MAILHUB_TOKEN": token})

    def start() -> None:
        with subprocess.Popen(
            [*MANAGE, "mcp"],
            env=settings,
            cwd=site.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as client:
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write(json.dumps(hello).encode() + b"\n")
            client.stdin.flush()
            assert b'"result"' in client.stdout.readline()
            client.stdin.close()

    start()
    taken = statistics.median(seconds(start) for _ in range(STARTS))
    row(
        "P11",
        "stdio: from the start to the end of a client that says hello, in seconds",
        taken,
        "1.0",
        "",
        "",
    )


@pytest.mark.goal("P12")
def test_cost_of_an_idle_mailhub(site: Site) -> None:
    worker = site.worker()
    with ours(site, "wsgi") as web:
        _idle({pid for leader in (web.pid, worker.pid) for pid in session_of(leader)})


def _idle(pids: set[int]) -> None:
    with connection.cursor() as cursor:  # transactions on our own connection would be counted too
        cursor.execute("ALTER SYSTEM SET autovacuum = off")
        cursor.execute("SELECT pg_reload_conf()")
    time.sleep(2 if QUICK else 10)  # the work that remains after a start
    before, spent = statements(), cpu(pids)
    time.sleep(IDLE_SECONDS)
    asked, used = (statements() - before) / IDLE_SECONDS, (cpu(pids) - spent) / IDLE_SECONDS * 100
    row("P12", "idle web and worker: % of a core", used, "0.5", "", "")
    row("P12", "idle web and worker: transactions a second", asked, "1", "", "")


def statements() -> int:
    """Return the number of transactions that the database has ended, without ours."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def cpu(pids: set[int]) -> float:
    """Return the CPU seconds that these processes have used."""
    ticks = 0
    for pid in pids:
        fields = proc(pid, "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def rate(taken: float) -> str:
    return f"{REQUESTS / taken:.0f}"


def mega(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def row(goal: str, what: str, ratio: float, most: str, ours: str, floor: str) -> None:
    parts = f" ({ours} / {floor})" if ours else ""
    rows.append((goal, what, f"{ratio:.2f}{parts}", most))


@pytest.fixture(scope="module", autouse=True)
def _page(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    lines = ["| goal | what | ratio | at most |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {' | '.join(cells)} |" for cells in sorted(rows, key=lambda cells: int(cells[0][1:]))
    ]
    section = "\n".join(lines) if QUICK else write_section("Serving, on PostgreSQL", lines)
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print("\n" + section)  # noqa: T201  # the table is what it is for
