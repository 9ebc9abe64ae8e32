"""Inputs and findings of the checker: rows of the database, traces elsewhere, and broken
promises.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Action:
    id: str
    message_id: str
    status: str
    proposer: int
    approvals_needed: int
    fence: int
    mailbox: str = ""
    token: str = ""


@dataclass(frozen=True, kw_only=True)
class Revision:
    action: str
    number: int
    digest: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Decision:
    action: str
    person: int
    verdict: str
    revision: int
    approval_round: int
    digest: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Attempt:
    action: str
    fence: int
    phase: str
    verdict: str | None
    evidence: str
    ruled_at: datetime | None = None
    started_at: datetime | None = None
    is_early: bool = False  # claimed before its time to undo was over, by the database's clock

    @property
    def unproven(self) -> bool:
        """Return True if mailhub itself says that it may have sent."""
        word_only = self.verdict == "not_sent" and self.evidence == "person"
        return self.phase == "wire_started" and (self.verdict in (None, "unknown") or word_only)


@dataclass(frozen=True, kw_only=True)
class Event:
    action: str
    event: str
    at: datetime
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A change of the members of a mailbox, from its audit.

    `role` is the new one, if there is one.
    """

    mailbox: str
    person: int
    event: str
    role: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """A person's ruling about one attempt, as it was posted.

    `taken`: mailhub took it (True), refused it (False), or no answer came (None).
    """

    action: str
    fence: int
    ruling: str
    began: datetime
    ended: datetime
    taken: bool | None


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """The end of what approvals rest on: of the rights of a token, or of a mailbox's connection.

    `subject` is its id. The change was committed between the two times.
    """

    subject: str
    began: datetime
    ended: datetime


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The content of the database at the end."""

    actions: Sequence[Action]
    revisions: Sequence[Revision] = ()
    decisions: Sequence[Decision] = ()
    attempts: Sequence[Attempt] = ()
    events: Sequence[Event] = ()
    members: Sequence[Member] = ()


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Traces outside the tables.

    They are texts by their place, findings of the audit's verifier, refusals in the database's own
    log, the number of sending calls at the provider for each Message-ID, people's rulings, what was
    taken away while mail waited, and for each action its number of lines in the send journals.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    canaries: Sequence[str] = ()
    audit: Sequence[str] = ()
    refusals: Sequence[str] = ()
    calls: Mapping[str, int] = field(default_factory=dict)
    rulings: Sequence[Ruling] = ()
    withdrawals: Sequence[Withdrawal] = ()
    journaled: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Violation:
    invariant: int
    name: str
    about: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.name}: {self.about}"
