"""The long proof: every queue in turn, with every kind of mailbox, from one seed.

`make faults SEED=… MINUTES=…` writes docs/reliability.md. Collected by name alone: how long it takes is for
who runs it to say.
"""

import os
from pathlib import Path
from random import SystemRandom
from typing import get_args

import pytest

from tests.faults.page import write
from tests.faults.plan import EVERY_KIND, Plan, QueueKind, Setup
from tests.faults.proof import Report, prove
from tests.processes import PROJECT

MINUTES = float(os.environ.get("MINUTES") or 1)  # for each queue
SEED = int(os.environ.get("SEED") or SystemRandom().randrange(10**6))
PAGE = PROJECT / "docs" / "reliability.md"
ENDLESS = 10**6  # the time ends it

pytestmark = pytest.mark.timeout(int(len(get_args(QueueKind)) * (MINUTES * 60 + 600)))


def test_the_promise_is_kept_on_every_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports: list[Report] = []
    for queue in get_args(QueueKind):
        home = tmp_path / queue.replace(" ", "-")
        home.mkdir()
        setup = Setup(queue=queue, seed=SEED, mailboxes=10, kinds=EVERY_KIND)
        reports.append(prove(setup, Plan(seconds=MINUTES * 60, proposals=ENDLESS), home))
        with capsys.disabled():
            states = ", ".join(f"{count} {state}" for state, count in sorted(reports[-1].states.items()))
            print(f"\n{queue}, seed {SEED}: {len(reports[-1].ledger)} in the ledger; {states}")  # noqa: T201
        broken = [str(violation) for violation in reports[-1].violations]
        assert not broken, "\n".join([f"{queue}, seed {SEED}", *broken])
        write(PAGE, reports)
