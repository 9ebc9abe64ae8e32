"""The cost of pages and of the sweeper with more actions, and with more mailboxes of one person.

The load is the one of `manage.py seed_load`. BENCH_QUICK=1 uses fewer actions and writes nothing.
Collected only by name: a test must not measure time.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

import pytest
from django.core.management import call_command
from django.db import connection, reset_queries
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from approvals.models import AuditEvent, NotificationCursor
from approvals.outbound.notifications.gather import ONLY
from approvals.worker import dispatch, maintenance
from tests.bench.page import QUICK, Measured, report
from tests.conftest import Reviewer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.postgres_only,
]
FEW, MANY = (1_000, 5_000) if QUICK else (1_000, 100_000)
ROUNDS = 3 if QUICK else 30
GROWTH, MAILBOXES = 1.5, 3.0
PEOPLE = (5, 1_000)
IDLE_QUERIES = len(maintenance.CHORES) + 1  # each asks once; then when the next mail may leave
SWEEP_SECONDS = 5 if QUICK else 240


def median_ms(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def load(actions: int, *, seed: int, mailboxes: int, **options: int) -> None:
    call_command(
        "seed_load",
        actions=actions,
        mailboxes=mailboxes,
        seed=seed,
        beside_others=True,
        verbosity=0,
        **options,
    )
    # As if mailhub had run all along: gathering notifications of so many events takes minutes.
    newest = AuditEvent.objects.latest("pk")
    NotificationCursor.objects.update_or_create(pk=ONLY, defaults={"event": newest.pk})
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


@pytest.mark.goal("N8")
def test_growth_with_actions_and_mailboxes(db: None) -> None:
    load(FEW, seed=1, mailboxes=max(PEOPLE) + 1, pending=FEW * 8 // 10, held=0, scheduled=0)
    few = measure_all()
    load(MANY - FEW, seed=2, mailboxes=100, held=0, scheduled=0)
    many = measure_all()
    rows = [_growth(what, few, many) for what in few]
    large, small = (many[f"queue of a person with {count:,} mailboxes"] for count in PEOPLE[::-1])
    rows.append(
        Measured(
            what=f"queue of a person with {PEOPLE[1]:,} mailboxes / {PEOPLE[0]}, {MANY:,} actions",
            measured=f"{large / small:.2f} ({large:.0f} / {small:.0f} ms)",
            limit=f"{MAILBOXES:g}",
            met=large / small <= MAILBOXES,
        )
    )
    report("N8", *rows)


def measure_all() -> Mapping[str, float]:
    """Return the median milliseconds of each page and of each question of the sweeper."""
    _sweep_until_idle()
    found = {
        "due mails": median_ms(dispatch.heads),
        "a sweep": median_ms(maintenance.sweep),
    }
    for count in PEOPLE:
        person = User.objects.get(email=f"person{count}@load1.example")
        reviewer = Reviewer.signed_in(person)
        name = f"queue of a person with {count:,} mailboxes"
        found[name] = median_ms(partial(_queue, reviewer))
    return found


def _queue(reviewer: Reviewer) -> None:
    assert b'id="row-' in reviewer.client.get("/").content


def _growth(what: str, few: Mapping[str, float], many: Mapping[str, float]) -> Measured:
    return Measured(
        what=f"{what}: {MANY:,} actions / {FEW:,}",
        measured=f"{many[what] / few[what]:.2f} ({many[what]:.1f} / {few[what]:.1f} ms)",
        limit=f"{GROWTH:g}",
        met=many[what] / few[what] <= GROWTH,
    )


def _sweep_until_idle() -> None:
    """Let the sweeper do what the load left for it, for some seconds."""
    ends_at = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < ends_at:
        reset_queries()  # the log keeps 9,000
        with CaptureQueriesContext(connection) as queries:
            maintenance.sweep()
        if len(queries) <= IDLE_QUERIES:
            return
    raise AssertionError("the sweeper had work until the end")
