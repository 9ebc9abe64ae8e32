"""Compares the provider's ledger with the database: pure functions that name what broke the promise.

1. each sent item has a valid approval for exactly these bytes, given before it was sent;
2. at most one ledger entry for an action, unless a person ordered another before it left; one call that sends for each
   attempt, and none after an attempt that may have sent;
3. succeeded means it is in the ledger; in the ledger means succeeded, unknown, or an attempt that mailhub says may have
   sent;
4. after healing every action is final or unknown;
5. the audit chain verifies, and no canary stands in a log, a job, a metric label or an error page;
6. the database had nothing to refuse: its guards are the last line, and none of ours may lean on them.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.faults.content import content_of_payload
from tests.faults.provider import Entry

ENDED = ("succeeded", "failed", "rejected", "cancelled", "expired", "superseded")
# Where two may come at once and the database says who was first; the second takes it for an answer.
EXPECTED = ("action_one_leaving_a_mailbox", "idempotency_key_once", "approvals_auditchain_pkey", "approvals_rest_pkey")


@dataclass(frozen=True, kw_only=True)
class Action:
    id: str
    message_id: str
    status: str
    proposer: int
    approvals_needed: int
    fence: int


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

    @property
    def unproven(self) -> bool:
        """Whether mailhub itself says that it may have sent."""
        word_only = self.verdict == "not_sent" and self.evidence == "person"
        return self.phase == "wire_started" and (self.verdict in (None, "unknown") or word_only)


@dataclass(frozen=True, kw_only=True)
class Event:
    action: str
    event: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What the database says when all is over."""

    actions: Sequence[Action]
    revisions: Sequence[Revision] = ()
    decisions: Sequence[Decision] = ()
    attempts: Sequence[Attempt] = ()
    events: Sequence[Event] = ()


@dataclass(frozen=True, kw_only=True)
class Traces:
    """What was written elsewhere: texts by where they stood, what the audit's verifier found, what the database's own
    log says it has refused, how often the call that sends has reached the provider for each Message-ID."""

    texts: Mapping[str, str] = field(default_factory=dict)
    canaries: Sequence[str] = ()
    audit: Sequence[str] = ()
    refusals: Sequence[str] = ()
    calls: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Violation:
    invariant: int
    name: str
    about: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.name}: {self.about}"


def check(ledger: Sequence[Entry], tables: Tables, traces: Traces) -> list[Violation]:
    """Everything that broke the promise; an empty list when nothing did."""
    return [
        *sent_without_approval(ledger, tables),
        *sent_twice(ledger, tables),
        *called_again(traces.calls, tables),
        *not_the_truth(ledger, tables),
        *stuck(tables),
        *told(traces),
        *(Violation(invariant=6, name="database_refused", about=text) for text in traces.refusals),
    ]


def sent_without_approval(ledger: Sequence[Entry], tables: Tables) -> Iterator[Violation]:
    """1: what was sent is what enough people had said yes to, in the round that was in force."""
    actions = {action.message_id: action for action in tables.actions}
    for entry in ledger:
        action = actions.get(entry.message_id)
        if action is None:
            yield Violation(invariant=1, name="sent_without_action", about=entry.message_id)
            continue
        same = [
            revision
            for revision in tables.revisions
            if revision.action == action.id and _is_of(entry, revision.payload) and _fits(revision)
        ]
        if not same:
            yield Violation(invariant=1, name="other_bytes_than_stored", about=action.id)
        elif not any(_approved(action, revision, entry.at, tables) for revision in same):
            yield Violation(invariant=1, name="sent_without_approval", about=action.id)


def _is_of(entry: Entry, payload: Mapping[str, Any]) -> bool:
    """The same bytes, or all that the provider was told of them where it writes them itself."""
    named = sorted([*payload["to"], *payload["cc"], *payload["bcc"]])
    told = content_of_payload(payload) if entry.content else payload["source_sha256"]
    return (told, payload["from"], named) == (entry.content or entry.sha256, entry.sender, sorted(entry.recipients))


def _fits(revision: Revision) -> bool:
    """Written out here once more: what checks must not lean on what is checked."""
    canonical = json.dumps(revision.payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest() == revision.digest


def _approved(action: Action, revision: Revision, at: datetime, tables: Tables) -> bool:
    made_void = [
        event
        for event in tables.events
        if event.action == action.id and event.event in ("undone", "returned") and event.at < at
    ]
    people = {
        decision.person
        for decision in tables.decisions
        if (decision.action, decision.verdict) == (action.id, "approved")
        and (decision.revision, decision.digest) == (revision.number, revision.digest)
        and decision.approval_round == 1 + len(made_void) + sum(ordered < at for ordered in orders(action, tables))
        and decision.at < at
        and (action.approvals_needed == 1 or decision.person != action.proposer)
    }
    return len(people) >= action.approvals_needed


def orders(action: Action, tables: Tables) -> list[datetime]:
    """When a person had it sent once more, ruling that the attempt before had not gone out."""
    return sorted(each.ruled_at for each in tables.attempts if each.action == action.id and each.ruled_at)


def sent_twice(ledger: Sequence[Entry], tables: Tables) -> Iterator[Violation]:
    """2: each copy but the first was ordered by a person before it left."""
    for action in tables.actions:
        copies = sorted(entry.at for entry in ledger if entry.message_id == action.message_id)
        ordered = orders(action, tables)
        for number, at in enumerate(copies[1:]):
            if number >= len(ordered) or ordered[number] >= at:
                yield Violation(invariant=2, name="sent_twice", about=f"{action.id}, {len(copies)} times")
                break


def called_again(calls: Mapping[str, int], tables: Tables) -> Iterator[Violation]:
    """2, seen from the provider's door: what it was asked to do twice it may have done once, or not at all."""
    known = {action.message_id for action in tables.actions}
    for message_id in calls.keys() - known:
        yield Violation(invariant=2, name="called_without_action", about=message_id)
    for action in tables.actions:
        began = [
            attempt
            for attempt in sorted(tables.attempts, key=lambda attempt: attempt.fence)
            if (attempt.action, attempt.phase) == (action.id, "wire_started")
        ]
        if calls.get(action.message_id, 0) > len(began):
            yield Violation(invariant=2, name="called_again", about=f"{action.id}, {calls[action.message_id]} times")
        if any(attempt.verdict != "not_sent" and not attempt.ruled_at for attempt in began[:-1]):
            yield Violation(invariant=2, name="tried_again", about=action.id)


def not_the_truth(ledger: Sequence[Entry], tables: Tables) -> Iterator[Violation]:
    """3, and that unknown is said only where it may have been sent."""
    sent = {entry.message_id for entry in ledger}
    last = {attempt.action: attempt for attempt in sorted(tables.attempts, key=lambda attempt: attempt.fence)}
    for action in tables.actions:
        if action.status == "succeeded" and action.message_id not in sent:
            yield Violation(invariant=3, name="said_sent_and_was_not", about=action.id)
        tried = [attempt for attempt in tables.attempts if attempt.action == action.id]
        ordered = orders(action, tables)  # then a late answer is told beside the state
        told = any(attempt.unproven or (ordered and attempt.verdict == "accepted") for attempt in tried)
        said = action.status in ("succeeded", "unknown") or told
        if action.message_id in sent and not said:
            yield Violation(invariant=3, name="was_sent_and_not_said", about=f"{action.id} {action.status}")
        if action.status == "unknown" and (action.id not in last or last[action.id].phase != "wire_started"):
            yield Violation(invariant=3, name="unknown_before_the_wire", about=action.id)


def stuck(tables: Tables) -> Iterator[Violation]:
    """4"""
    for action in tables.actions:
        if action.status not in (*ENDED, "unknown"):
            yield Violation(invariant=4, name="stuck", about=f"{action.id} {action.status}")


def told(traces: Traces) -> Iterator[Violation]:
    """5"""
    for found in traces.audit:
        yield Violation(invariant=5, name="audit", about=found)
    for place, text in traces.texts.items():
        for canary in traces.canaries:
            if canary in text:
                line = next(line for line in text.splitlines() if canary in line)
                yield Violation(invariant=5, name="canary", about=f"{place}: {line[:200]}")


def refused_by(log: str, guards: Collection[str]) -> list[str]:
    """The lines of PostgreSQL's log in which a guard refused, or a constraint that nobody should run into."""
    named = re.compile(r"ERROR:  (?:(?P<rule>\w+): |.*constraint \"(?P<constraint>\w+)\")")
    return [
        line
        for line in log.splitlines()
        if (found := named.search(line))
        and (found["rule"] in guards or (found["constraint"] is not None and found["constraint"] not in EXPECTED))
    ]
