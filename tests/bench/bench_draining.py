"""The mails a second of one worker at its default settings when the mail server is 20 ms away.

BENCH_QUICK=1 runs a few mails and writes nothing. Collected only by name: a test must not measure
time.
"""

import time
from typing import Any

import pytest

from accounts.models import User
from tests.approvals.queues.conftest import Site, agent_of
from tests.bench.far_smtp import FarSmtp
from tests.bench.page import QUICK, Measured, report
from tests.support.processes.programs import this_test, until
from tests.support.servers.sandbox import SandboxServer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(600),
    pytest.mark.postgres_only,
    pytest.mark.parametrize("kind", ["database"]),
]
MAILBOXES, EACH = (8, 4) if QUICK else (20, 15)
AT_LEAST = 25


@pytest.mark.goal("N6")
def test_mails_a_second_of_one_worker(
    site: Site, sandbox: SandboxServer, alice: User, settings: Any
) -> None:
    settings.MAILHUB_REQUESTS_PER_MINUTE = settings.MAILHUB_PROPOSALS_PER_MINUTE = 1_000_000
    with FarSmtp() as smtp:
        addresses = [f"alice.{number}@lovelace.example" for number in range(MAILBOXES)]
        agents = [agent_of(alice, sandbox, smtp, address=address) for address in addresses]
        for number in range(MAILBOXES * EACH):
            action = agents[number % MAILBOXES].propose(
                subject=f"Mail {number}", save_to_sent_items=False
            )
            assert site.reviewer.decide(action, "approve").status_code == 302
        arrived: list[float] = []
        smtp.on_accept = lambda _: arrived.append(time.perf_counter())
        site.environment |= this_test()  # which names the far server
        site.worker()
        until(lambda: len(arrived) == MAILBOXES * EACH)
    rate = (len(arrived) - 1) / (arrived[-1] - arrived[0])
    report(
        "N6",
        Measured(
            what=f"mails a second of one worker, {MAILBOXES} mailboxes, server 20 ms away",
            measured=f"{rate:.0f}",
            limit=f"at least {AT_LEAST}",
            met=rate >= AT_LEAST,
        ),
    )
