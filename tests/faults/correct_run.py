"""A correct run of one action for tests of the checker, which break one part of it."""

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.faults.checker import check
from tests.faults.facts import (
    Action,
    Attempt,
    Decision,
    Event,
    Member,
    Revision,
    Ruling,
    Tables,
    Traces,
    Withdrawal,
)
from tests.faults.provider import Entry
from tests.faults.worlds import Restore

NINE = datetime(2026, 5, 4, 9, tzinfo=UTC)
PAYLOAD = {
    "from": "ada@x", "to": ["mira@y"], "cc": [], "bcc": ["hidden@y"], "source_sha256": "5" * 64, "subject": "Hello",
    "text": "Hello.\n", "html": None, "attachments": [],
}  # fmt: skip


def at(minutes: float) -> datetime:
    return NINE + timedelta(minutes=minutes)


def sealed(payload: dict[str, Any]) -> str:
    return hashlib.sha256(
        json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


RULED = Ruling(action="a", fence=1, ruling="not_sent", began=at(4.9), ended=at(5.1), taken=True)


@dataclass(frozen=True, kw_only=True)
class World:
    """A mail, the ledger, and its rows in the database; with `lost`, the rows from before a
    restore.
    """

    ledger: tuple[Entry, ...]
    action: Action
    revision: Revision
    decisions: tuple[Decision, ...]
    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]
    traces: Traces
    restores: tuple[Restore, ...] = ()
    members: tuple[Member, ...] = ()

    def tables(self) -> Tables:
        return Tables(
            actions=[self.action],
            revisions=[self.revision],
            decisions=self.decisions,
            attempts=self.attempts,
            events=self.events,
            members=self.members,
        )

    def found(self) -> list[tuple[int, str]]:
        found = check(self.ledger, self.tables(), self.traces, self.restores)
        return [(violation.invariant, violation.name) for violation in found]

    def restored(self, **copy: Any) -> "World":
        """Restore, ten minutes later, an older copy in which it was approved and not claimed
        yet.
        """
        older = self.but(action=replace(self.action, status="approved", fence=0), attempts=()).but(
            **copy
        )
        restore = Restore(at=at(10), ended=at(12), lost=self.tables(), copy=older.tables())
        return older.but(restores=(restore,))

    def returned(self) -> "World":
        """Return it to a person after the restore, with a warning."""
        event = Event(action="a", event="returned", at=at(11), code="may_have_been_sent")
        return self.but(
            action=replace(self.action, status="rejected"), events=(*self.events, event)
        )

    def left(self, minutes: float) -> "World":
        """Send it then, by an attempt that the restored database knows."""
        fence = len(self.attempts) + 1
        attempt = replace(WELL.attempts[0], fence=fence, started_at=at(minutes))
        return self.but(
            action=replace(self.action, status="succeeded", fence=fence),
            attempts=(*self.attempts, attempt),
            ledger=(*self.ledger, replace(WELL.ledger[0], at=at(minutes))),
        )

    def proven_unsent(self) -> "World":
        return self.but(attempts=(replace(self.attempts[0], verdict="not_sent", evidence="probe"),))

    def approved_anew(self, minutes: float) -> "World":
        again = replace(WELL.decisions[0], approval_round=2, at=at(minutes))
        return self.but(decisions=(*self.decisions, again))

    def ruled(self, *rulings: Ruling) -> "World":
        return self.but(traces=replace(self.traces, rulings=rulings))

    def but(self, **changes: Any) -> "World":
        return replace(self, **changes)

    def state(self, status: str, **attempt: Any) -> "World":
        attempts = (replace(self.attempts[0], **attempt),)
        return self.but(action=replace(self.action, status=status), attempts=attempts)

    def entry(self, **changes: Any) -> "World":
        return self.but(ledger=(replace(self.ledger[0], **changes),))

    def second_revision(self) -> "World":
        """Return the mail with another revision of the same content, which the person approved."""
        return self.decision(revision=2).but(revision=replace(self.revision, number=2))

    def decision(self, **changes: Any) -> "World":
        return self.but(decisions=(replace(self.decisions[0], **changes),))

    def two_needed(self, *people: int) -> "World":
        decisions = tuple(replace(self.decisions[0], person=person) for person in people)
        return self.but(action=replace(self.action, approvals_needed=2), decisions=decisions)

    def member(self, *events: tuple[float, str, str]) -> "World":
        """Add events of the approver's membership: minute, event and new role."""
        told = (
            Member(mailbox="", person=1, event=event, role=role, at=at(minute))
            for minute, event, role in events
        )
        return self.but(members=tuple(told))

    def called(self, times: int, message_id: str = "<1>") -> "World":
        return self.but(traces=replace(self.traces, calls={message_id: times}))

    def withdrawn(self, began: float, ended: float, *subjects: str) -> "World":
        """Take a token or a connection away, by default those of the action."""
        gone = tuple(
            Withdrawal(subject=subject, began=at(began), ended=at(ended))
            for subject in subjects or ("token", "mailbox")
        )
        action = replace(self.action, token="token", mailbox="mailbox")
        attempts = tuple(replace(each, started_at=at(1.5)) for each in self.attempts)
        return self.but(
            action=action, attempts=attempts, traces=replace(self.traces, withdrawals=gone)
        )

    def journaled(self, **lines: int) -> "World":
        return self.but(traces=replace(self.traces, journaled=lines))

    def sent_again(self, evidence: str) -> "World":
        """Send another copy five minutes after the first; a person's order had it approved
        again.
        """
        ordered = at(5) if evidence == "person" else None
        ruled = Attempt(
            action="a",
            fence=1,
            phase="wire_started",
            verdict="not_sent",
            evidence=evidence,
            ruled_at=ordered,
        )
        again = replace(self.decisions[0], approval_round=2, at=at(5))
        rulings = (RULED,) if evidence == "person" else ()
        return self.but(
            traces=replace(self.traces, rulings=rulings),
            ledger=(*self.ledger, replace(self.ledger[0], at=at(7))),
            decisions=(*self.decisions, again),
            attempts=(ruled, replace(self.attempts[0], fence=2)),
        )


# Ada approved it at one minute past nine, and it was sent at two past nine.
WELL = World(
    ledger=(
        Entry(
            message_id="<1>",
            sender="ada@x",
            recipients=("mira@y", "hidden@y"),
            sha256="5" * 64,
            at=at(2),
        ),
    ),
    action=Action(
        id="a", message_id="<1>", status="succeeded", proposer=3, approvals_needed=1, fence=1
    ),
    revision=Revision(action="a", number=1, digest=sealed(PAYLOAD), payload=PAYLOAD),
    decisions=(
        Decision(
            action="a",
            person=1,
            verdict="approved",
            revision=1,
            approval_round=1,
            digest=sealed(PAYLOAD),
            at=at(1),
        ),
    ),
    attempts=(
        Attempt(action="a", fence=1, phase="wire_started", verdict="accepted", evidence="answer"),
    ),
    events=(),
    traces=Traces(texts={"log": "event=attempt_ended"}, canaries=("canary",)),
)


IN_DOUBT = WELL.state("unknown", verdict="unknown").but(ledger=())
