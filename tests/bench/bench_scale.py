"""The cost of one mail from its proposal to the copy in Sent, and how long mails would wait on many
machines.

`make bench` prints both. The first test measures; the second puts the figures into the model of
`scale_model.py`. BENCH_QUICK=1 runs a few mails and writes nothing.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from django.db import connection

from accounts.models import User
from approvals.core.states import Status
from approvals.models import PendingAction
from tests.approvals.queues.conftest import Site, agent_of
from tests.bench import scale_model
from tests.bench.page import write_section
from tests.bench.scale_model import Costs
from tests.support.processes.proc import proc
from tests.support.processes.programs import session_of, until
from tests.support.servers.sandbox import SandboxServer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.postgres_only,
    pytest.mark.parametrize("kind", ["database"]),
]

QUICK = bool(os.environ.get("BENCH_QUICK"))
MAILBOXES, EACH = (3, 4) if QUICK else (20, 20)
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Step:
    """The cost of one step for one mail: CPU in milliseconds, bytes of WAL, and counts."""

    name: str
    ours: float
    database: float
    wal: float
    rows: float
    transactions: float


class Meter:
    """Readings of the database server and of a process of ours, before and after a step."""

    def __init__(self, mails: int, cpu: Callable[[], float]) -> None:
        self._mails, self._cpu = mails, cpu
        self._before = self._read()

    def step(self, name: str) -> Step:
        """Return what has been spent for one mail since this object was made."""
        spent = [
            (after - before) / self._mails
            for before, after in zip(self._before, self._read(), strict=True)
        ]
        ours, database, wal, rows, transactions = spent
        return Step(
            name=name, ours=ours, database=database, wal=wal, rows=rows, transactions=transactions
        )

    def _read(self) -> tuple[float, ...]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute(
                "SELECT pg_backend_pid(), pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'),"
                " tup_inserted + tup_updated + tup_deleted, xact_commit"
                " FROM pg_stat_database WHERE datname = current_database()"
            )
            backend, wal, rows, transactions = cursor.fetchone()
        return self._cpu(), _server_cpu(backend), float(wal), float(rows), float(transactions)


def _cpu(pid: int, *, ended: bool = False) -> float:
    """Return the CPU milliseconds of a process; with `ended` also those of its ended children."""
    fields = proc(pid, "stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if ended else 13])) * 1000 / TICKS


def _server_cpu(backend: int) -> float:
    """Return the CPU milliseconds of PostgreSQL: of the postmaster and all of its children."""
    postmaster = int(proc(backend, "stat").read_text().rpartition(")")[2].split()[1])
    children = proc(postmaster, "task", postmaster, "children").read_text().split()
    return _cpu(postmaster, ended=True) + sum(_cpu(int(child)) for child in children)


def _own_cpu() -> float:
    return time.process_time() * 1000


def _bytes_of_tables() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables"
            " WHERE relname NOT LIKE 'django%'"
        )
        return int(cursor.fetchone()[0])


def test_what_a_mail_costs(site: Site, sandbox: SandboxServer, alice: User) -> None:
    agents = [
        agent_of(alice, sandbox, site.smtp, address=f"alice.{n}@lovelace.example")
        for n in range(MAILBOXES)
    ]
    mails = MAILBOXES * EACH
    for agent in agents:  # so that caches are warm and the recipient is known
        agent.propose(subject="First")
    began_with = _bytes_of_tables()

    meter = Meter(mails, _own_cpu)
    actions = [agent.propose(subject=f"Mail {n}") for n in range(EACH) for agent in agents]
    steps = [meter.step("propose, over REST")]

    meter = Meter(mails, _own_cpu)
    for _ in range(mails // 10):
        assert site.reviewer.client.get("/").status_code == 200
    steps.append(meter.step("a tenth of a queue page"))

    meter = Meter(mails, _own_cpu)
    for action in actions:
        assert site.reviewer.decide(action, "approve").status_code == 302
    steps.append(meter.step("review page, and approve"))

    worker = site.worker()
    assert worker.process is not None
    meter = Meter(mails, lambda: sum(_cpu(pid) for pid in session_of(worker.pid)))
    waiting = PendingAction.objects.filter(pk__in=actions).exclude(status=Status.SUCCEEDED)
    until(lambda: not waiting.exists(), seconds=300)
    until(
        lambda: not PendingAction.objects.filter(pk__in=actions, settle_at__isnull=False).exists()
    )
    steps.append(meter.step("send, and copy to Sent"))

    assert len(site.smtp.ledger) == mails
    _publish(steps, (_bytes_of_tables() - began_with) / mails)


def _publish(steps: list[Step], stored: float) -> None:
    costs = Costs(
        propose=steps[0].ours / 1000,
        decide=(steps[1].ours + steps[2].ours) / 1000,
        send=steps[3].ours / 1000,
        database=(steps[0].database / 1000, steps[2].database / 1000, steps[3].database / 1000),
    )
    lines = [
        "| step, for one mail | CPU of mailhub | CPU of PostgreSQL | WAL | rows written | transactions |",
        "| --- | --- | --- | --- | --- | --- |",
        *(
            f"| {each.name} | {each.ours:.1f} ms | {each.database:.1f} ms | {each.wal / 1024:.1f} KB"
            f" | {each.rows:.1f} | {each.transactions:.1f} |"
            for each in steps
        ),
        "",
        f"A mail of 1 KB leaves {stored / 1024:.1f} KB in tables and indexes. {MAILBOXES * EACH} mails of"
        f" {MAILBOXES} mailboxes on this machine; load average {os.getloadavg()[0]:.1f}.",
        "",
        *scale_model.table(costs, seconds=60 if QUICK else 600),
    ]
    text = "\n".join(lines)
    results.append(
        text if QUICK else write_section("What one mail costs, and at which scale", lines)
    )


results: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def _page(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print("\n" + "\n".join(results))  # noqa: T201  # the table is what it is for
