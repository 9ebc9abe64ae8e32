"""The parts of a run and its faults."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.faults.apis import SENDING_TROUBLE, Trouble
from tests.faults.smtp import FAULTS, Planned
from tests.support.processes.programs import PROJECT

QueueKind = Literal[
    "database",
    "rq",
    "celery",
    "celery on RabbitMQ",
    "database on SQLite",
    "celery on five machines",
]
MailboxKind = Literal["imap", "graph", "graph at once", "gmail"]
EVERY_KIND: tuple[MailboxKind, ...] = ("imap", "graph", "gmail", "imap", "graph at once")
CANARY = "canary"  # is in every address, subject and text, and may be nowhere else
OFFICES = 3
PROGRAMS = 30  # of the agent: each ends while its mail waits, and the next one continues
LINKS = 12  # sign-in links of a person for each office: for risky approvals, and after a restore
LEASE_SECONDS = 3
# A clock jumps by a multiple of these hours. A run is shorter, so each stored time tells by how much the
# clock was wrong that wrote it. The jumps back are shorter than a proposal waits, and the longest ones
# ahead are longer.
JUMP_HOURS = 6
JUMPS = (-2, -1, 1, 5, 8)
WIRE_SECONDS = 4
# The relative frequency of each blow.
BLOWS = {
    "worker killed": 6,
    "worker told to end": 2,
    "worker frozen beyond its lease": 4,
    "only the worker's parent killed": 3,
    "worker's child killed": 2,
    "broker flushed": 2,
    "broker restarted": 1,
    "database restarted": 1,
    "database crashed": 1,
    "database read-only": 2,
    "journal held": 1,
    "worker frozen with the journal": 2,
    "disk full": 2,
    "jobs doubled": 4,
    "web server killed": 1,
    "machine killed": 3,
    "content altered in the database": 3,
    "bytes altered in the database": 3,
    "database's clock jumped": 2,
    "worker's clock jumped": 3,
    "token revoked": 3,
    "program's sign-in ended": 2,
    "connection of a mailbox changed": 2,
    "mailbox's sign-in ended": 1,
}


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The programs; the seed decides every random choice.

    The mailboxes take the `kinds` in turn.
    """

    queue: QueueKind
    seed: int
    mailboxes: int = 8
    kinds: tuple[MailboxKind, ...] = ("imap",)
    undo_seconds: int = 1
    two_needed: bool = True  # some mailboxes require two people
    tree: Path = PROJECT

    @property
    def on_sqlite(self) -> bool:
        return self.queue == "database on SQLite"

    @property
    def on_machines(self) -> bool:
        """Return True if each worker and each web server is on a machine with a home of its own."""
        return self.queue == "celery on five machines"

    @property
    def workers(self) -> int:
        return 3 if self.on_machines else 2

    @property
    def webs(self) -> int:
        return 2 if self.on_machines else 1

    @property
    def addresses(self) -> list[str]:
        return [f"{CANARY}-box{number}@proof.example" for number in range(self.mailboxes)]

    def kind_of(self, address: str) -> MailboxKind:
        return self.kinds[self.addresses.index(address) % len(self.kinds)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Duration, amount and faults of a run.

    `power_cuts` and `restores` strike at drawn moments, each in its part of the time.

    `calm` people propose and approve, and do nothing else; the run ends when all is decided and
    sent. `rules`: in the end a person rules that half of the unknown actions were not sent.
    """

    seconds: float
    proposals: int
    calm: bool = False
    rules: bool = True
    fault_rate: float = 0.4
    faults: tuple[Planned, ...] = FAULTS
    api_faults: tuple[Trouble, ...] = (
        SENDING_TROUBLE  # at the call that sends; the other calls have their own
    )
    blow_every: tuple[float, float] = (1.0, 2.5)
    blows: dict[str, int] = field(default_factory=lambda: dict(BLOWS))
    power_cuts: int = 0
    restores: int = 0
    frozen_seconds: tuple[float, float] = (LEASE_SECONDS + 0.5, LEASE_SECONDS + 3)
    heal_seconds: float = 240  # an idle machine needs 10
