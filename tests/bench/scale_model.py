"""A model of mailhub on many machines: where mails wait, if each step costs what was measured.

Mails arrive at random (Poisson) at three times the mean rate of a day. The model knows the cores of
the web servers, of PostgreSQL and of the workers, the workers' concurrency slots, and that one mail
of a mailbox leaves at a time. It does not know disks, networks or locks, and people decide at once.
"""

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

DAY = 86_400
PEAK = 3
SMTP_SECONDS = 0.4  # to connect, sign in and hand over to a provider on the internet


@dataclass(frozen=True, kw_only=True)
class Costs:
    """CPU seconds for one mail: in web servers, in the worker, and in PostgreSQL for each step."""

    propose: float
    decide: float
    send: float
    database: tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Site:
    """A number of mails a day, and the machines for them."""

    mails: int
    mailboxes: int
    web_cores: int
    database_cores: int
    worker_cores: int
    slots: int


SITES = (
    Site(mails=10_000, mailboxes=1_000, web_cores=2, database_cores=2, worker_cores=1, slots=4),
    Site(mails=100_000, mailboxes=10_000, web_cores=2, database_cores=2, worker_cores=1, slots=8),
    Site(
        mails=1_000_000, mailboxes=100_000, web_cores=2, database_cores=2, worker_cores=1, slots=8
    ),
    Site(
        mails=1_000_000, mailboxes=100_000, web_cores=8, database_cores=4, worker_cores=4, slots=48
    ),
)


@dataclass
class Waits:
    """How long the mails of a run took, in seconds, and how busy each part was."""

    propose: list[float] = field(default_factory=list)
    decide: list[float] = field(default_factory=list)
    leave: list[float] = field(default_factory=list)


class Model:
    """One run of a site."""

    def __init__(self, site: Site, costs: Costs, seed: int = 1) -> None:
        self.site, self.costs, self.waits = site, costs, Waits()
        self.busy = {"web": 0.0, "PostgreSQL": 0.0, "workers": 0.0}
        self._random = random.Random(seed)
        self._env = simpy.Environment()
        self._cores = {
            "web": simpy.Resource(self._env, site.web_cores),
            "PostgreSQL": simpy.Resource(self._env, site.database_cores),
            "workers": simpy.Resource(self._env, site.worker_cores),
        }
        self._slots = simpy.Resource(self._env, site.slots)
        self._mailboxes = dict[int, simpy.Resource]()

    def run(self, seconds: float) -> Waits:
        """Return the waits of the mails that were proposed in so many seconds of the peak."""
        self._env.process(self._arrive(seconds))
        self._env.run(until=seconds)
        return self.waits

    def share(self, part: str, seconds: float) -> float:
        """Return how much of a part's cores was used."""
        return self.busy[part] / seconds / self._cores[part].capacity

    def _arrive(self, seconds: float) -> Generator[simpy.Event, Any, None]:
        rate = self.site.mails / DAY * PEAK
        while self._env.now < seconds:
            yield self._env.timeout(self._random.expovariate(rate))
            self._env.process(self._mail())

    def _mail(self) -> Generator[simpy.Event, Any, None]:
        costs, began = self.costs, self._env.now
        yield from self._use("web", costs.propose)
        yield from self._use("PostgreSQL", costs.database[0])
        self.waits.propose.append(self._env.now - began)
        began = self._env.now
        yield from self._use("web", costs.decide)
        yield from self._use("PostgreSQL", costs.database[1])
        self.waits.decide.append(self._env.now - began)
        began = self._env.now
        number = self._random.randrange(self.site.mailboxes)
        mailbox = self._mailboxes.setdefault(number, simpy.Resource(self._env, 1))
        with mailbox.request() as turn:
            yield turn
            with self._slots.request() as slot:
                yield slot
                yield from self._use("workers", costs.send)
                yield from self._use("PostgreSQL", costs.database[2])
                yield self._env.timeout(SMTP_SECONDS)
        self.waits.leave.append(self._env.now - began)

    def _use(self, part: str, seconds: float) -> Generator[simpy.Event, Any, None]:
        with self._cores[part].request() as core:
            yield core
            yield self._env.timeout(seconds)
        self.busy[part] += seconds


def table(costs: Costs, seconds: float) -> Sequence[str]:
    """Return a table of all sites: p95 of each wait, how busy the parts are, and what is full."""
    lines = [
        "| mails a day, mailboxes | cores: web, PostgreSQL, workers; slots | propose p95 | decide p95"
        " | approved to sent p95 | busy: web, PostgreSQL, workers |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for site in SITES:
        model = Model(site, costs)
        waits = model.run(seconds)
        busy = ", ".join(f"{min(model.share(part, seconds), 1):.0%}" for part in model.busy)
        lines.append(
            f"| {site.mails:,}, {site.mailboxes:,} | {site.web_cores}, {site.database_cores},"
            f" {site.worker_cores}; {site.slots} | {_p95(waits.propose)} | {_p95(waits.decide)}"
            f" | {_p95(waits.leave)} | {busy} |"
        )
    return lines


def _p95(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none was sent"
    value = sorted(seconds)[int(len(seconds) * 0.95)]
    return f"{value * 1000:.0f} ms" if value < 10 else f"{value:.0f} s"
