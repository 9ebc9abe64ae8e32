"""The cost of sending after a person's approval, against floors measured in turn in the same run.

`make bench` prints it.

BENCH_QUICK=1 runs a few rounds and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
from celery import Celery  # type: ignore[import-untyped]
from django.db import connection
from redis import Redis as RedisClient
from rq import Queue

from accounts.models import User
from approvals.core.states import Status
from approvals.decisions import verdicts
from approvals.models import Attempt, PendingAction
from tests.approvals.queues.conftest import (
    COMMANDS,
    Site,
    agent_of,
    broker,
    redis,
    redis_server,
    sandbox,
    sandbox_process,
    site,
)
from tests.bench.floors import CHANNEL, READY
from tests.bench.page import write_section
from tests.support.processes.programs import PROJECT, Program, environment, this_test, until
from tests.support.servers.sandbox import SandboxServer
from tests.support.servers.smtp import FaultySmtp

__all__ = ["broker", "redis", "redis_server", "sandbox", "sandbox_process", "site"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

QUICK = bool(os.environ.get("BENCH_QUICK"))
ROUNDS, WARM_UP = (6, 2) if QUICK else (60, 5)
MAILS, MAILBOXES = (60, 6) if QUICK else (1000, 50)
NAMES = {
    "database": "database worker",
    "celery": "Celery, prefork",
    "celery-solo": "Celery, solo",
    "rq-resident": "RQ, resident",
    "rq": "RQ, a fork for each job",
}
rows: dict[str, list[str]] = {}


class Floor(Program):
    """A worker without Django, of the same queue."""

    def __init__(self, home: Path, command: list[str], **changes: object) -> None:
        home.mkdir()
        super().__init__(home, **changes)
        self._command = command

    def start(self) -> None:
        with (self.home / "stdout").open("ab") as out, (self.home / "stderr").open("ab") as err:
            self.process = subprocess.Popen(
                self._command,
                env=environment(self.home, {"PYTHONPATH": PROJECT, **self._changes}),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )


class Arrivals:
    """The time at which the mail server took the next mail."""

    def __init__(self, smtp: FaultySmtp) -> None:
        self._event = threading.Event()
        self._at = 0.0
        smtp.on_accept = lambda _: self._note()

    def _note(self) -> None:
        self._at = time.perf_counter()
        self._event.set()

    def after(self, start: Callable[[], object]) -> float:
        """Return the milliseconds from before the call until a mail has been accepted."""
        self._event.clear()
        began = time.perf_counter()
        start()
        assert self._event.wait(60), "no mail arrived"
        return (self._at - began) * 1000


@contextmanager
def floor_of(site: Site) -> Iterator[Callable[[], object]]:
    """Run the floor's worker. Yield a call that notifies it once."""
    port, home = site.smtp.port, site.home / "floor"
    if site.kind == "database":
        with _bare_listener(site, home, port) as ring:
            yield ring
        return
    assert site.server is not None
    url = site.server.url.removesuffix("/0") + "/1"  # type: ignore[attr-defined]
    if site.kind.startswith("celery"):
        options = COMMANDS[site.kind][COMMANDS[site.kind].index("worker") :]
        command = [sys.executable, "-m", "celery", "-A", "tests.bench.floors", *options]
        with (
            Floor(home, command, FLOOR_BROKER=url),
            Celery("bell", broker=url, set_as_current=False) as bell,
        ):
            yield lambda: bell.send_task("floor.send", (port,), queue="floor", ignore_result=True)
        return
    jobs = Queue("floor", connection=RedisClient.from_url(url))
    kind = "rq.SimpleWorker" if site.kind == "rq-resident" else "rq.Worker"
    # Resolved once for all forks, as in any service that imports the modules of its jobs.
    with Floor(home, [sys.executable, "-c", RQ_FLOOR, url, kind.rpartition(".")[2]]):
        yield lambda: jobs.enqueue("tests.bench.floors.send", port, result_ttl=0)


RQ_FLOOR = """
import sys, redis, rq
import tests.bench.floors
rq_worker = getattr(rq, sys.argv[2])
rq_worker(["floor"], connection=redis.Redis.from_url(sys.argv[1])).work(logging_level="WARNING")
"""


@contextmanager
def _bare_listener(site: Site, home: Path, port: int) -> Iterator[Callable[[], object]]:
    postgres = connection.vendor == "postgresql"
    address = str(this_test()["DATABASE_URL"]) if postgres else str(site.home / "floor-bell")
    if not postgres:
        os.mkfifo(address)
    with ExitStack() as open_, Floor(home, [sys.executable, "-m", "tests.bench.floors", address]):
        until(lambda: (home / READY).exists())
        if postgres:
            notifier = open_.enter_context(psycopg.connect(address, autocommit=True))
            yield lambda: notifier.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(port)])
        else:
            bell = os.open(address, os.O_WRONLY)
            open_.callback(os.close, bell)
            yield lambda: os.write(bell, f"{port:05}".encode())


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


@pytest.mark.goal("P7")
@pytest.mark.parametrize("kind", COMMANDS)
def test_time_from_approval_to_the_mail_server(site: Site, alice: User) -> None:
    """Measure P7: in each round the floor, then an approved action; the time of the approval itself
    is included.
    """
    actions = [
        PendingAction.objects.get(pk=site.api.propose(subject=f"Mail {n}"))
        for n in range(ROUNDS + WARM_UP)
    ]
    arrivals = Arrivals(site.smtp)
    floor: list[float] = []
    ours: list[float] = []
    said: list[float] = []
    site.worker()
    with floor_of(site) as ring:
        for action in actions:
            floor.append(arrivals.after(ring))
            ours.append(arrivals.after(partial(timed, said, partial(approve, action, alice))))
            until(partial(settled, action))
    floor, ours, said = floor[WARM_UP:], ours[WARM_UP:], said[WARM_UP:]
    p50 = statistics.median(ours) / statistics.median(floor)
    p95 = quantile(ours, 0.95) / quantile(floor, 0.95)
    over = statistics.median(ours) - statistics.median(floor)
    goal = "3.0" if site.kind == "rq" else "1.8 / 2.5"
    if connection.vendor == "sqlite":
        goal = "+ 300 ms"
    parts = f"{statistics.median(floor):.1f} ms + {over:.1f} ms, the yes {statistics.median(said):.1f} of them"
    row(
        "P7",
        f"{NAMES[site.kind]}: yes to accepted / no-op job and smtplib, p50 / p95",
        f"{p50:.2f} / {p95:.2f} ({parts})",
        goal,
    )
    assert len(site.smtp.ledger) == 2 * len(actions), "each left once"


def approve(action: PendingAction, person: User) -> None:
    verdicts.approve(
        action_id=action.pk, person=person, digest=action.digest, revision=action.revision
    )


def timed(taken: list[float], call: Callable[[], object]) -> None:
    """Append the milliseconds that the call takes."""
    began = time.perf_counter()
    call()
    taken.append((time.perf_counter() - began) * 1000)


def settled(action: PendingAction) -> bool:
    return PendingAction.objects.filter(
        pk=action.pk, status=Status.SUCCEEDED, settle_at=None
    ).exists()


@pytest.mark.goal("P13")
@pytest.mark.parametrize("kind", ["database"])
def test_two_workers_drain_many_mailboxes(site: Site, sandbox: SandboxServer, alice: User) -> None:
    """Measure P13: everything is approved before the workers begin."""
    agents = [
        agent_of(alice, sandbox, site.smtp, address=f"alice.{n}@lovelace.example")
        for n in range(MAILBOXES)
    ]
    for number in range(MAILS):
        action = agents[number % MAILBOXES].propose(
            subject=f"Mail {number}", save_to_sent_items=False
        )
        approve(PendingAction.objects.get(pk=action), alice)

    fresh, kept = (floor_drained(site, way) for way in ("drain-fresh", "drain"))
    before = len(site.smtp.ledger)
    began = time.perf_counter()
    for _ in range(2):
        site.worker()
    started = time.perf_counter()
    already = len(site.smtp.ledger) - before
    until(lambda: len(site.smtp.ledger) - before >= MAILS, seconds=600)
    ended = time.perf_counter()
    until(lambda: not PendingAction.objects.exclude(status=Status.SUCCEEDED).exists())
    rate = (MAILS - already) / (ended - started)
    row(
        "P13",
        f"{MAILS:,} mails of {MAILBOXES} mailboxes, 2 workers / smtplib with a connection for each mail",
        f"{rate / fresh:.2f} ({rate:.0f} against {fresh:.0f} a second)",
        "≥ 0.5",
    )
    row(
        "P13",
        "the same / smtplib on 2 kept connections",
        f"{rate / kept:.2f} ({kept:.0f} a second)",
        "≥ 0.5",
    )
    assert ended - began < 600
    assert Attempt.objects.count() == MAILS
    assert len(site.smtp.ledger) == before + MAILS


def floor_drained(site: Site, way: str) -> float:
    """Return the mails per second of two processes that do nothing else."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.floors",
        way,
        str(site.smtp.port),
        str(MAILS // 2),
    ]
    before = len(site.smtp.ledger)
    with ExitStack() as both:
        for number in range(2):
            both.enter_context(Floor(site.home / f"{way}-{number}", command))
        until(lambda: len(site.smtp.ledger) > before)
        first, began = len(site.smtp.ledger), time.perf_counter()
        until(lambda: len(site.smtp.ledger) - before >= MAILS // 2 * 2)
        return (len(site.smtp.ledger) - first) / (time.perf_counter() - began)


def row(*cells: str) -> None:
    rows.setdefault(connection.vendor, []).append(f"| {' | '.join(cells)} |")


@pytest.fixture(scope="module", autouse=True)
def _page(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    for vendor, lines in rows.items():
        title = f"Sending, on {'PostgreSQL' if vendor == 'postgresql' else 'SQLite'}"
        text = ["| goal | what | ratio | at most |", "| --- | --- | --- | --- |", *lines]
        section = "\n".join(text) if QUICK else write_section(title, text)
        with capture.global_and_fixture_disabled():
            print("\n" + section)  # noqa: T201  # the table is what it is for
