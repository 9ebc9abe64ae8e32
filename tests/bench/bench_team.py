"""The waits of a team of 10 people and 20 agents at 15 mails a second, and the lag of the live hub at
100 mails a second.

`make bench` prints it. All programs share the machine: the servers, the worker, PostgreSQL, and the
clients of this process.

BENCH_QUICK=1 runs for a few seconds and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any
from uuid import UUID

import psycopg
import pytest

from accounts.models import User
from approvals.models import PendingAction
from tests.approvals.queues.conftest import Site, agent_of
from tests.bench.bench_delivery import p95
from tests.bench.bench_waiting import decide, follow, served
from tests.bench.goals import Measured, report
from tests.bench.page import QUICK
from tests.bench.served import Web, ours
from tests.conftest import HELLO, Reviewer
from tests.support.processes.programs import this_test
from tests.support.servers.sandbox import SandboxServer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.postgres_only,
    pytest.mark.parametrize("kind", ["database"]),
]
PEOPLE, AGENTS_OF_ONE, MAILS_A_SECOND = 10, 2, 15
SECONDS, DECISIONS = (4, 3) if QUICK else (30, 10)
LIMITS = {"approve": 150, "queue": 250, "propose": 250}
EVENTS_OF_A_MAIL, BUSY_MAILS_A_SECOND, BATCHES_A_SECOND = 4, 100, 20
LAG_SECONDS = 3.0
CALL_SECONDS = 60
EVENTS = """
INSERT INTO approvals_auditevent
  (chain_id, mailbox_id, sequence, at, event, action_id, actor, data, previous, hash)
SELECT %(mailbox)s, %(mailbox)s, n, clock_timestamp(), 'created', gen_random_uuid(), 'floor', '{}',
  'bench ' || n, 'bench ' || n
FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""


@dataclass(kw_only=True)
class Desk:
    """One person with a browser, the mails that wait for them, and the tokens of their agents."""

    browser: Callable[..., bytes]
    csrf: str
    database: str
    waiting: Queue[str] = field(default_factory=Queue)
    secrets: list[str] = field(default_factory=list)


def paced(call: Callable[[], None], *, every: float, first: float, ends_at: float) -> None:
    """Repeat a call at fixed moments until the time is over; a late one follows at once."""
    at = time.monotonic() + first
    while max(at, time.monotonic()) < ends_at:
        time.sleep(max(at - time.monotonic(), 0))
        call()
        at += every


@pytest.mark.goal("N9")
def test_waits_of_a_team(
    site: Site, sandbox: SandboxServer, alice: User, settings: Any, tmp_path: Path
) -> None:
    settings.MAILHUB_REQUESTS_PER_MINUTE = settings.MAILHUB_PROPOSALS_PER_MINUTE = 1_000_000
    taken: dict[str, list[float]] = {name: [] for name in LIMITS}
    site.worker()
    with ours(site, workers=2, MAILHUB_UNDO_SECONDS=0) as web:
        desks = [_desk(site, sandbox, web, number) for number in range(PEOPLE)]
        left = len(site.smtp.ledger)
        ends_at = time.monotonic() + SECONDS
        with ThreadPoolExecutor(PEOPLE * (1 + AGENTS_OF_ONE)) as team:
            work = [team.submit(*each) for each in _work(web, desks, taken, ends_at)]
            for each in work:
                each.result(SECONDS + CALL_SECONDS)
        sent = (len(site.smtp.ledger) - left) / SECONDS
    lag = _lag_of_the_hub(site, alice, tmp_path)
    rows = [
        Measured(
            what=f"p95 of {name}, {PEOPLE} people and {PEOPLE * AGENTS_OF_ONE} agents for {SECONDS} s,"
            f" {len(taken['propose']) / SECONDS:.1f} proposed and {sent:.1f} sent a second",
            measured=f"{p95(taken[name]):.0f} ms",
            limit=f"{most} ms",
            met=p95(taken[name]) <= most
            and len(taken["propose"]) >= 0.9 * SECONDS * MAILS_A_SECOND,
        )
        for name, most in LIMITS.items()
    ]
    rows.append(
        Measured(
            what=f"longest lag of the live hub at {BUSY_MAILS_A_SECOND} mails a second",
            measured=f"{lag:.1f} s",
            limit=f"{LAG_SECONDS:g} s",
            met=lag <= LAG_SECONDS,
        )
    )
    report("N9", *rows)


def _desk(site: Site, sandbox: SandboxServer, web: Web, number: int) -> Desk:
    person = User.objects.create_user(f"person{number}@lovelace.example")
    reviewer = Reviewer.signed_in(person)
    api = agent_of(person, sandbox, site.smtp)
    reviewer.client.get("/")
    cookies = {name: each.value for name, each in reviewer.client.cookies.items()}
    return Desk(
        browser=web.browser(cookies),
        csrf=cookies["csrftoken"],
        database=str(this_test()["DATABASE_URL"]),
        secrets=[api.secret] * AGENTS_OF_ONE,
    )


def _work(
    web: Web, desks: list[Desk], taken: dict[str, list[float]], ends_at: float
) -> Iterator[tuple[Any, ...]]:
    """Yield what each thread does: agents propose, people look at the queue and approve."""
    agents = PEOPLE * AGENTS_OF_ONE
    every = agents / MAILS_A_SECOND
    for number, desk in enumerate(desks):
        for which, secret in enumerate(desk.secrets):
            post = web.client("/api/v1/tools/send_email", secret)
            share = (number * AGENTS_OF_ONE + which) / agents
            call = partial(_propose, post, desk, taken)
            yield (partial(paced, call, every=every, first=share * every, ends_at=ends_at),)
        its = every / AGENTS_OF_ONE
        call = partial(_decide_next, desk, taken)
        yield (partial(paced, call, every=its, first=number / PEOPLE * its, ends_at=ends_at),)


def _propose(post: Callable[[Any], bytes], desk: Desk, taken: dict[str, list[float]]) -> None:
    # The same mail twice would be a warning.
    mail = {**HELLO, "subject": f"Mail {time.monotonic_ns()}", "confirm": True}
    answer = json.loads(timed(taken["propose"], partial(post, mail)))
    desk.waiting.put(answer["action"]["id"])


def _decide_next(desk: Desk, taken: dict[str, list[float]]) -> None:
    timed(taken["queue"], partial(desk.browser, "/"))
    try:
        action_id = desk.waiting.get_nowait()
    except Empty:
        return
    with psycopg.connect(desk.database) as asked:
        select = "SELECT digest, revision FROM approvals_pendingaction WHERE id = %s"
        ((digest, revision),) = asked.execute(select, [action_id]).fetchall()
    form = {"digest": digest, "revision": revision, "csrfmiddlewaretoken": desk.csrf}
    timed(taken["approve"], partial(desk.browser, f"/actions/{action_id}/approve/", form))


def timed(taken: list[float], call: Callable[[], bytes]) -> bytes:
    """Append the milliseconds that the call takes."""
    began = time.perf_counter()
    answer = call()
    taken.append((time.perf_counter() - began) * 1000)
    return answer


def _lag_of_the_hub(site: Site, alice: User, folder: Path) -> float:
    """Return the longest time in seconds from a decision to the answer of a program that waits."""
    actions = [site.api.propose(subject=f"Waits {number}") for number in range(DECISIONS)]
    busy = PendingAction.objects.exclude(pk__in=actions).values_list("mailbox", flat=True)[0]
    woken: dict[str, float] = {}

    async def all_follow(web: Web) -> None:
        await asyncio.gather(*(follow(web, site.api.secret, each, woken) for each in actions))

    with served(folder / "hub") as web, _events_of_others(busy), ThreadPoolExecutor(1) as beside:
        programs = beside.submit(asyncio.run, all_follow(web))
        time.sleep(SECONDS / 3)  # the hub follows for a while before the first decision
        done = decide(actions, alice, seconds=1.0)
        programs.result(120)
    return max(woken[each] - done[each] for each in actions)


@contextmanager
def _events_of_others(mailbox: UUID) -> Iterator[None]:
    """Write as many events as BUSY_MAILS_A_SECOND, in a chain that nobody follows."""
    ended, database = Event(), str(this_test()["DATABASE_URL"])
    size = EVENTS_OF_A_MAIL * BUSY_MAILS_A_SECOND // BATCHES_A_SECOND

    def write() -> None:
        first = 1_000_000
        with psycopg.connect(database, autocommit=True) as connected:
            while not ended.wait(1 / BATCHES_A_SECOND):
                its = {"mailbox": mailbox, "first": first, "last": first + size - 1}
                connected.execute(EVENTS, its)
                first += size

    writer = Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join(10)
