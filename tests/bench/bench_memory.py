"""The memory of one more process of each kind, and the time until a client over stdio has an
answer.

`make bench` prints it.

BENCH_QUICK=1 runs a few rounds and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from accounts.models import ApiToken, User
from tests.approvals.queues.conftest import Site
from tests.bench.goals import Measured, report
from tests.bench.page import QUICK
from tests.bench.served import ASKED, Web, ours, pss_of
from tests.conftest import HELLO
from tests.support.processes.programs import MANAGE, PROJECT, environment, session_of, until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.postgres_only,
    pytest.mark.parametrize("kind", ["database"]),
]
STARTS = 2 if QUICK else 5
CLIENTS, ROUNDS = (4, 1) if QUICK else (10, 2)
FEW, MANY = 2, 4
WEB_MB, WORKER_MB, STDIO_MB, START = 60, 75, 75, 1.3
HELLO_MCP = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}
SETUP = "import django; django.setup()"
# structlog loads rich if it can, and only the requirements of the tests install it.
ABSENT = 'raise ImportError("rich is not in requirements/runtime.txt")'


def mega(web: int) -> float:
    return sum(pss_of(pid) for pid in session_of(web)) / 1e6


def memory_of_web(site: Site, workers: int) -> float:
    """Return the megabytes of gunicorn with so many workers, after calls and pages."""
    cookies = {name: each.value for name, each in site.reviewer.client.cookies.items()}
    with ours(site, "wsgi", workers=workers) as web:
        # Each connection goes to the worker that takes it first, so there are many.
        for _ in range(CLIENTS):
            _use(web, site, cookies)
        return mega(web.pid)


def _use(web: Web, site: Site, cookies: dict[str, str]) -> None:
    propose = web.client("/api/v1/tools/send_email", site.api.secret)
    browser = web.browser(cookies)
    for _ in range(ROUNDS):
        propose({**HELLO, "confirm": True})
        browser("/")


@contextmanager
def stdio(site: Site, alice: User) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Yield a call that starts the server over stdio; all of them end with the block."""
    token = ApiToken.issue(user=alice, name="desk", scopes=["mail:read"], mailboxes=[])[1]
    settings = environment(
        site.home,
        {**site.environment, "MAILHUB_TOKEN": token, "MAILHUB_REQUESTS_PER_MINUTE": 1_000_000},
    )
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        program = subprocess.Popen(
            [*MANAGE, "mcp"],
            env=settings,
            cwd=site.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        started.append(program)
        return program

    try:
        yield start
    finally:
        for program in started:
            program.kill()
            program.communicate()


def ask(program: subprocess.Popen[bytes], question: dict[str, Any]) -> bytes:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(json.dumps(question).encode() + b"\n")
    program.stdin.flush()
    answer = program.stdout.readline()
    assert b'"result"' in answer, answer
    return answer


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


@pytest.mark.goal("N10")
def test_memory_and_start_of_a_process(site: Site, alice: User) -> None:
    hidden = site.home / "hidden"
    hidden.mkdir()
    (hidden / "rich.py").write_text(ABSENT)
    site.environment["PYTHONPATH"] = f"{hidden}:{PROJECT}"
    site.approved()
    worker = site.worker()
    until(lambda: len(site.smtp.ledger) == 1)
    of_worker = mega(worker.pid)
    worker.kill()
    site.reviewer.client.get("/")
    few, many = (memory_of_web(site, workers) for workers in (FEW, MANY))
    settings = environment(
        site.home, {**site.environment, "DJANGO_SETTINGS_MODULE": "mailhub.settings"}
    )

    def set_up() -> None:
        subprocess.run([sys.executable, "-c", SETUP], env=settings, cwd=PROJECT, check=True)

    starts: list[float] = []
    bare: list[float] = []
    with stdio(site, alice) as start:
        for _ in range(STARTS):
            bare.append(seconds(set_up))
            starts.append(seconds(lambda: ask(start(), HELLO_MCP)))
        desk = start()
        ask(desk, HELLO_MCP)
        assert desk.stdin is not None
        desk.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        ask(desk, ASKED | {"id": 2})
        of_stdio = pss_of(desk.pid) / 1e6
    each = (many - few) / (MANY - FEW)
    median, floor = statistics.median(starts), statistics.median(bare)
    report(
        "N10",
        _memory("one more web worker of gunicorn, after calls and pages", each, WEB_MB),
        _memory("`manage.py worker`, after one mail", of_worker, WORKER_MB),
        _memory("`manage.py mcp`, after one call", of_stdio, STDIO_MB),
        Measured(
            what="start of `manage.py mcp` to its first answer, over `django.setup()`",
            measured=f"{median / floor:.2f} ({median:.2f} / {floor:.2f} s)",
            limit=f"{START}",
            met=median / floor <= START,
        ),
    )


def _memory(what: str, measured: float, most: float) -> Measured:
    return Measured(
        what=f"PSS: {what}",
        measured=f"{measured:.0f} MB",
        limit=f"{most:.0f} MB",
        met=measured <= most,
    )
