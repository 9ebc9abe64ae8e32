"""The mails a second of one worker when the mail server is 20 ms away, against plain smtplib, and the
cost of a mail when many others of its mailbox wait.

`make bench` prints it.

BENCH_QUICK=1 runs a few mails and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from accounts.models import User
from approvals.core.states import Status
from approvals.gate.execute import execute
from approvals.models import PendingAction
from tests.approvals.queues.conftest import Site, agent_of
from tests.bench import floors
from tests.bench.bench_delivery import approve
from tests.bench.far_smtp import FarSmtp
from tests.bench.goals import Measured, report
from tests.bench.page import QUICK
from tests.conftest import Api, make_api, make_mailbox
from tests.support.processes.programs import this_test, until
from tests.support.servers.memory import MemoryServer
from tests.support.servers.sandbox import SandboxServer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(600),
    pytest.mark.postgres_only,
    pytest.mark.parametrize("kind", ["database"]),
]
MAILBOXES, EACH = (8, 4) if QUICK else (20, 15)
CONNECTIONS = 8
WAITING, LEAVING = (100, 5) if QUICK else (1_000, 30)
SHARE, SLOWER = 0.8, 1.2


@pytest.mark.goal("N6")
def test_mails_a_second_of_one_worker(
    site: Site,
    sandbox: SandboxServer,
    alice: User,
    server: MemoryServer,
    settings: Any,
) -> None:
    settings.MAILHUB_REQUESTS_PER_MINUTE = settings.MAILHUB_PROPOSALS_PER_MINUTE = 1_000_000
    ours, floor = _rates(site, sandbox, alice)
    long, short = _one_mailbox(alice, server)
    report(
        "N6",
        Measured(
            what=f"mails a second: one worker, {MAILBOXES} mailboxes / {CONNECTIONS} kept connections of smtplib",
            measured=f"{ours / floor:.2f} ({ours:.0f} / {floor:.0f})",
            limit=f"at least {SHARE}",
            met=ours / floor >= SHARE,
        ),
        Measured(
            what=f"a mail of a mailbox with {WAITING:,} approved mails / with {LEAVING}, without SMTP",
            measured=f"{long / short:.2f} ({long:.1f} / {short:.1f} ms)",
            limit=f"{SLOWER}",
            met=long / short <= SLOWER,
        ),
    )


def _rates(site: Site, sandbox: SandboxServer, alice: User) -> tuple[float, float]:
    """Return the mails a second of one worker, and of smtplib on kept connections."""
    with FarSmtp() as smtp:
        agents = [
            agent_of(alice, sandbox, smtp, address=f"alice.{n}@lovelace.example")
            for n in range(MAILBOXES)
        ]
        for number in range(MAILBOXES * EACH):
            action = agents[number % MAILBOXES].propose(
                subject=f"Mail {number}", save_to_sent_items=False
            )
            approve(PendingAction.objects.get(pk=action), alice)
        arrived: list[float] = []
        smtp.on_accept = lambda _: arrived.append(time.perf_counter())
        site.environment |= this_test()  # which names the far server
        worker = site.worker()
        until(lambda: len(arrived) == MAILBOXES * EACH, seconds=120)
        ours = _rate(arrived)
        until(lambda: not PendingAction.objects.exclude(status=Status.SUCCEEDED).exists())
        worker.kill()  # it would take the mails of the next measurement
        arrived.clear()
        with ThreadPoolExecutor(CONNECTIONS) as several:
            each = MAILBOXES * EACH // CONNECTIONS
            list(several.map(lambda _: floors.keep_sending(smtp.port, each), range(CONNECTIONS)))
        return ours, _rate(arrived)


def _rate(arrived: list[float]) -> float:
    """Return the mails a second between the first and the last one."""
    return (len(arrived) - 1) / (arrived[-1] - arrived[0])


def _one_mailbox(alice: User, server: MemoryServer) -> tuple[float, float]:
    """Return the milliseconds of a mail of a mailbox with many approved mails, and with few."""
    apis = []
    for name in ("long", "short"):
        mailbox = make_mailbox(f"{name}@lovelace.example", server, alice)
        apis.append((mailbox, make_api(alice, mailbox, name=name)))
    mails = [[_approved(api, alice, number) for number in range(LEAVING)] for _, api in apis]
    for number in range(LEAVING, WAITING):  # these only wait
        _approved(apis[0][1], alice, number)
    times: tuple[list[float], list[float]] = ([], [])
    for pair in zip(*mails, strict=True):
        for action_id, taken in zip(pair, times, strict=True):
            began = time.perf_counter()
            assert execute(action_id, worker="bench")
            taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(times[0]), statistics.median(times[1])


def _approved(api: Api, alice: User, number: int) -> UUID:
    action = PendingAction.objects.get(pk=api.propose(subject=f"Mail {number}"))
    approve(action, alice)
    return action.pk
