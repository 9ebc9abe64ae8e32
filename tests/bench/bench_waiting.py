"""The cost of a thousand programs that wait for a decision, on one web process.

`make bench` prints it.

BENCH_QUICK=1 uses fewer programs and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import asyncio
import os
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from accounts.models import User
from approvals.gate import decide as verdicts
from tests.bench.page import write_section
from tests.bench.served import Web
from tests.conftest import Api
from tests.support.processes.proc import proc
from tests.support.processes.programs import session_of, this_test, until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.postgres_only,
]

QUICK = bool(os.environ.get("BENCH_QUICK"))
PROGRAMS, IDLE_SECONDS, DECISIONS_A_SECOND = (50, 3, 50) if QUICK else (1_000, 5, 20)
MOST_WAITS = 4  # of a minute each
LOOKS_A_SECOND = 3  # of the live hub, for all that wait together


@contextmanager
def served(home: Path) -> Iterator[Web]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    settings = {**this_test(), "ALLOWED_HOSTS": "127.0.0.1"}
    settings |= {"MAILHUB_REQUESTS_PER_MINUTE": 1_000_000}
    with Web(home, "asgi", workers=1, **settings) as web:
        until(lambda: web.answers("/api/v1/tools/list_mailboxes"), say=web.log)
        yield web


async def follow(web: Web, secret: str, action: str, woken: dict[str, float]) -> None:
    """Wait for one action until it is rejected, and note the time."""
    for _ in range(MOST_WAITS):
        reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
        writer.write(
            f"GET /api/v1/actions/{action}?wait=60 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {secret}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = await reader.read()
        writer.close()
        if b'"state":"rejected"' in answer:
            woken[action] = time.monotonic()
            return
        assert b'"state":"pending"' in answer, answer


def decide(
    actions: Sequence[str], person: User, *, seconds: float = 1 / DECISIONS_A_SECOND
) -> dict[str, float]:
    """Reject one action every so many seconds, and return when each was committed."""
    done = {}
    for action in actions:
        verdicts.reject(action_id=action, person=person)  # type: ignore[arg-type]
        done[action] = time.monotonic()
        time.sleep(seconds)
    connection.close()
    return done


def status(web: Web, name: str) -> int:
    lines = proc(max(session_of(web.pid)), "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def transactions(seconds: float) -> float:
    """Return the transactions a second in the database, all connections together."""

    def count() -> int:
        url = str(this_test()["DATABASE_URL"])
        with psycopg.connect(url, autocommit=True) as asked:
            asked.execute("SELECT pg_stat_force_next_flush()")
            found = asked.execute(
                "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        assert found is not None
        return int(found[0])

    before = count()
    time.sleep(seconds)
    return (count() - before - 2) / seconds


def test_thousand_programs_wait(api: Api, alice: User, tmp_path: Path, settings: object) -> None:
    settings.MAILHUB_REQUESTS_PER_MINUTE = 1_000_000  # type: ignore[attr-defined]
    settings.MAILHUB_PROPOSALS_PER_MINUTE = 1_000_000  # type: ignore[attr-defined]
    actions = [api.propose(subject=f"Mail {number}") for number in range(PROGRAMS)]
    woken: dict[str, float] = {}
    with served(tmp_path / "web") as web:
        empty, open_before = (web.memory(), status(web, "Threads")), _open_files(web)

        async def all_follow() -> None:
            await asyncio.gather(*(follow(web, api.secret, action, woken) for action in actions))

        with ThreadPoolExecutor(1) as beside:
            programs = beside.submit(asyncio.run, all_follow())
            until(lambda: _open_files(web) - open_before >= PROGRAMS, say=web.log)
            # All have asked: from here on there are only the looks of the live hub.
            until(lambda: transactions(1) <= LOOKS_A_SECOND, say=web.log)
            quiet = transactions(IDLE_SECONDS)
            full = web.memory(), status(web, "Threads")
            done = decide(actions, alice)
            programs.result(300)
    took = sorted((woken[action] - done[action]) * 1000 for action in actions)
    p50, p95 = statistics.median(took), took[int(len(took) * 0.95)]
    report(
        [
            (
                f"wake-up at {DECISIONS_A_SECOND} decisions a second, p50 / p95 / longest",
                f"{p50:,.0f} / {p95:,.0f} / {took[-1]:,.0f} ms",
            ),
            (
                "memory of the web process, before / with them",
                f"{empty[0] / 1e6:.0f} / {full[0] / 1e6:.0f} MB"
                f" ({(full[0] - empty[0]) / PROGRAMS / 1e3:.0f} KB each)",
            ),
            ("its threads, before / with them", f"{empty[1]} / {full[1]}"),
            ("transactions a second while they wait", f"{quiet:.2f}"),
            ("load average of the machine, fsync", f"{os.getloadavg()[0]:.1f}, {_fsync()}"),
        ]
    )
    assert quiet <= LOOKS_A_SECOND
    assert full[1] - empty[1] <= 16


def _fsync() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW fsync")
        return str(cursor.fetchone()[0])


def _open_files(web: Web) -> int:
    return len(list(proc(max(session_of(web.pid)), "fd").iterdir()))


def report(rows: list[tuple[str, str]]) -> None:
    title = f"Waiting, with {PROGRAMS:,} programs on one web process"
    lines = ["| what | measured |", "| --- | --- |", *(f"| {what} | {got} |" for what, got in rows)]
    sys.stdout.write("\n".join(["", title, *lines, ""]))
    if not QUICK:
        write_section(title, lines)
