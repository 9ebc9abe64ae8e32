"""The waits of a team of 10 people and 10 agents, at 10 mails a second on PostgreSQL and 4 on SQLite.

All programs share the machine: the servers, the worker, the database, and the clients of this
process. BENCH_QUICK=1 runs for a few seconds and writes nothing. Collected only by name: a test must
not measure time.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from math import inf
from queue import Empty, Queue
from typing import Any

import pytest
from django.db import connection

from accounts.models import User
from tests.approvals.queues.conftest import Site, agent_of
from tests.bench.page import QUICK, Measured, report
from tests.bench.served import Web, ours
from tests.conftest import HELLO, Reviewer
from tests.support.servers.sandbox import SandboxServer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.parametrize("kind", ["database"]),
]
PEOPLE = 10  # each with one agent
MAILS_A_SECOND = {"postgresql": 10, "sqlite": 4}
NAMES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}
SECONDS = 4 if QUICK else 30
STEPS = ("propose", "queue", "review", "approve")
MOST_MS = 150
CALL_SECONDS = 60


@dataclass(kw_only=True)
class Desk:
    """One person with a browser, and the mails that wait for them."""

    browser: Callable[..., bytes]
    csrf: str
    secret: str
    waiting: Queue[str] = field(default_factory=Queue)


def paced(call: Callable[[], None], *, every: float, first: float, ends_at: float) -> None:
    """Repeat a call at fixed moments until the time is over; a late one follows at once."""
    at = time.monotonic() + first
    while max(at, time.monotonic()) < ends_at:
        time.sleep(max(at - time.monotonic(), 0))
        call()
        at += every


@pytest.mark.goal("N9")
def test_waits_of_a_team(site: Site, sandbox: SandboxServer, settings: Any) -> None:
    settings.MAILHUB_REQUESTS_PER_MINUTE = settings.MAILHUB_PROPOSALS_PER_MINUTE = 1_000_000
    taken: dict[str, list[float]] = {name: [] for name in STEPS}
    rate = MAILS_A_SECOND[connection.vendor]
    site.worker()
    with ours(site, workers=2, MAILHUB_UNDO_SECONDS=0) as web:
        desks = [_desk(site, sandbox, web, number) for number in range(PEOPLE)]
        left = len(site.smtp.ledger)
        ends_at = time.monotonic() + SECONDS
        with ThreadPoolExecutor(PEOPLE * 2) as team:
            work = [team.submit(*each) for each in _work(web, desks, taken, ends_at)]
            for each in work:
                each.result(SECONDS + CALL_SECONDS)
        sent = (len(site.smtp.ledger) - left) / SECONDS
    proposed = len(taken["propose"]) / SECONDS
    report(
        "N9",
        *(
            Measured(
                what=f"p95 of {name}, {PEOPLE} people and {PEOPLE} agents for {SECONDS} s,"
                f" {proposed:.1f} proposed and {sent:.1f} sent a second",
                measured=f"{p95(taken[name]):.0f} ms",
                limit=f"{MOST_MS} ms",
                met=p95(taken[name]) <= MOST_MS and proposed >= 0.9 * rate,
            )
            for name in STEPS
        ),
        part=NAMES[connection.vendor],
    )


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)] if values else inf


def _desk(site: Site, sandbox: SandboxServer, web: Web, number: int) -> Desk:
    person = User.objects.create_user(f"person{number}@lovelace.example")
    reviewer = Reviewer.signed_in(person)
    api = agent_of(person, sandbox, site.smtp)
    reviewer.client.get("/")
    cookies = {name: each.value for name, each in reviewer.client.cookies.items()}
    return Desk(browser=web.browser(cookies), csrf=cookies["csrftoken"], secret=api.secret)


def _work(
    web: Web, desks: list[Desk], taken: dict[str, list[float]], ends_at: float
) -> Iterator[tuple[Any, ...]]:
    """Yield what each thread does: agents propose, people look at the queue and approve."""
    every = PEOPLE / MAILS_A_SECOND[connection.vendor]
    for number, desk in enumerate(desks):
        first = number / PEOPLE * every
        post = web.client("/api/v1/tools/send_email", desk.secret)
        for call in (partial(_propose, post, desk, taken), partial(_decide_next, desk, taken)):
            yield (partial(paced, call, every=every, first=first, ends_at=ends_at),)


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
    page = timed(taken["review"], partial(desk.browser, f"/actions/{action_id}/")).decode()
    fields = (re.search(rf'name="{name}" value="(\w+)"', page) for name in ("digest", "revision"))
    digest, revision = (found[1] for found in fields if found)
    form = {"digest": digest, "revision": revision, "csrfmiddlewaretoken": desk.csrf}
    timed(taken["approve"], partial(desk.browser, f"/actions/{action_id}/approve/", form))


def timed(taken: list[float], call: Callable[[], bytes]) -> bytes:
    """Append the milliseconds that the call takes."""
    began = time.perf_counter()
    answer = call()
    taken.append((time.perf_counter() - began) * 1000)
    return answer
