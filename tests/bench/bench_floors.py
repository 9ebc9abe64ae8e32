"""The services that propose, approve and execute, against the same durable steps in SQL by hand.

`make bench` prints it.

BENCH_QUICK=1 runs a few rounds and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from accounts.models import User
from approvals.decisions import verdicts
from approvals.models import PendingAction
from approvals.worker.execution import execute
from tests.bench.floors import Floor
from tests.bench.goals import Measured, report
from tests.bench.page import QUICK
from tests.conftest import Api
from tests.support.processes.programs import this_test

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.postgres_only,
]
ROUNDS, WARM_UP = (10, 2) if QUICK else (60, 20)
AT_MOST = 2.0


@contextmanager
def time_in_sql() -> Iterator[list[float]]:
    """Yield a list that receives the milliseconds of each wait for the database."""
    raw: Any = connection.connection
    waits: list[float] = []
    original = raw.wait

    def wait(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return original(*arguments, **options)
        finally:
            waits.append((time.perf_counter() - began) * 1000)

    raw.wait = wait
    try:
        yield waits
    finally:
        del raw.wait


class Times:
    """The milliseconds of each step, by its name."""

    def __init__(self) -> None:
        self.taken: dict[str, list[float]] = {}

    def of(self, name: str, call: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = call()
        self.add(name, (time.perf_counter() - began) * 1000)
        return result

    def add(self, name: str, milliseconds: float) -> None:
        self.taken.setdefault(name, []).append(milliseconds)

    def median(self, name: str) -> float:
        return statistics.median(self.taken[name][WARM_UP:])


@pytest.mark.goal("N3")
def test_cost_of_the_durable_steps(api: Api, alice: User, settings: Any, tmp_path: Path) -> None:
    """Measure in each round every step of mailhub, and the same step of F."""
    settings.MAILHUB_HOME = tmp_path
    settings.MAILHUB_REQUESTS_PER_MINUTE = settings.MAILHUB_PROPOSALS_PER_MINUTE = 1_000_000
    template = UUID(api.propose())
    floor = Floor(
        str(this_test()["DATABASE_URL"]), template, person=alice.pk, journal=tmp_path / "floor"
    )
    times = Times()
    try:
        for number in range(ROUNDS + WARM_UP):
            if number == WARM_UP:
                with connection.cursor() as cursor:
                    cursor.execute("ANALYZE")  # as autovacuum does after a while
            by_hand = times.of("F propose", floor.propose)
            times.of("F approve", lambda made=by_hand: floor.approve(made))  # type: ignore[misc]
            times.of("F execute", lambda made=by_hand: floor.execute(made))  # type: ignore[misc]
            _ours(times, api, alice, f"Mail {number}")
    finally:
        floor.close()
    report("N3", *(_row(times, step, what) for step, what in STEPS.items()))


STEPS = {
    "approve": "the service that approves, over F",
    "propose": "the time in SQL of a proposal over REST, over F",
    "execute": "the service that executes, with a provider that answers at once, over F",
}


def _ours(times: Times, api: Api, alice: User, subject: str) -> None:
    with time_in_sql() as waits:
        action = PendingAction(pk=UUID(api.propose(subject=subject)))
    times.add("propose", sum(waits))
    action.refresh_from_db()
    times.of(
        "approve",
        lambda: verdicts.approve(
            action_id=action.pk, person=alice, digest=action.digest, revision=action.revision
        ),
    )
    assert times.of("execute", lambda: execute(action.pk, worker="bench"))
    action.refresh_from_db()
    assert action.status == "succeeded"


def _row(times: Times, step: str, what: str) -> Measured:
    ours, floor = times.median(step), times.median(f"F {step}")
    return Measured(
        what=what,
        measured=f"{ours / floor:.2f} ({ours:.1f} / {floor:.1f} ms)",
        limit=f"{AT_MOST:.0f}",
        met=ours / floor <= AT_MOST,
    )
