"""The long proof: every queue in turn, with every kind of mailbox, from one seed.

`make faults SEED=… MINUTES=…` writes docs/operate/reliability.md. With QUEUE=… in the environment
only that queue runs and nothing is written. It is collected only by name: the caller decides how
long it takes.
"""

import os
from dataclasses import replace
from pathlib import Path
from random import SystemRandom
from typing import get_args

import pytest

from tests.faults.page import write
from tests.faults.plan import EVERY_KIND, Plan, QueueKind, Setup
from tests.faults.proof import Report, prove
from tests.support.processes.programs import PROJECT

MINUTES = float(os.environ.get("MINUTES") or 1)  # for each queue
SEED = int(os.environ.get("SEED") or SystemRandom().randrange(10**6))
PAGE = PROJECT / "docs" / "operate" / "reliability.md"
ENDLESS = 10**6  # only the time ends it
QUEUES = [queue for queue in get_args(QueueKind) if queue == os.environ.get("QUEUE", queue)]
SECONDS_A_POWER_CUT = 60
MACHINES_SECONDS_A_POWER_CUT = 120  # their programs take longer to start
PLAN = Plan(
    seconds=MINUTES * 60,
    proposals=ENDLESS,
    restores=1 if MINUTES < 4 else 2,
)

pytestmark = pytest.mark.timeout(int(len(get_args(QueueKind)) * (MINUTES * 60 + 600)))


def test_promise_is_kept_on_every_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports: list[Report] = []
    for queue in QUEUES:
        home = tmp_path / queue.replace(" ", "-")
        home.mkdir()
        setup = Setup(queue=queue, seed=SEED, mailboxes=10, kinds=EVERY_KIND)
        each = MACHINES_SECONDS_A_POWER_CUT if setup.on_machines else SECONDS_A_POWER_CUT
        plan = replace(PLAN, power_cuts=max(round(MINUTES * 60 / each), 1))
        reports.append(prove(setup, plan, home))
        with capsys.disabled():
            states = ", ".join(
                f"{count} {state}" for state, count in sorted(reports[-1].states.items())
            )
            blows = sum(reports[-1].blows.values())
            ledger = len(reports[-1].ledger)
            print(f"\n{queue}, seed {SEED}: {ledger} in the ledger; {states}; {blows} blows")  # noqa: T201
        broken = [reports[-1].tell(violation) for violation in reports[-1].violations]
        assert not broken, "\n".join([f"{queue}, seed {SEED}", *broken])
        if len(QUEUES) == len(get_args(QueueKind)):
            write(PAGE, reports)
