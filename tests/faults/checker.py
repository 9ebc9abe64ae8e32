"""Compares the provider's ledger with the database: pure functions that name each broken
promise.

1. Each sent item has a valid approval for exactly these bytes. It was given before the send by
   people who were allowed to approve then, and still were when a worker claimed the action. If a
   restore made the database forget the handover, the approval is from after the restore. If its
   token or the connection of its mailbox was taken away, the approval is from after that. Nothing
   leaves while its approval can be undone, by the database's clock.
2. There is at most one ledger entry for an action, unless a person ordered another before it was
   sent. There is one sending call for each attempt, and no call after an attempt that may have
   sent. A ruling is about the attempt that its page showed.
3. A succeeded action is in the ledger, or a person ruled so. An action in the ledger is succeeded
   or unknown, or has an attempt that mailhub says may have sent. The send journal has a line for
   each copy.
4. After healing every action is final or unknown. None has expired: only a wrong clock says so.
5. The audit chain verifies, and no canary is in a log, a job, a metric label or an error page.
6. The database had nothing to refuse: its guards are the last line, and our code may not rely on
   them.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tests.faults.content import content_of_payload
from tests.faults.facts import (
    Action,
    Attempt,
    Decision,
    Revision,
    Ruling,
    Tables,
    Traces,
    Violation,
    Withdrawal,
)
from tests.faults.membership import counts
from tests.faults.provider import Entry
from tests.faults.worlds import (
    LATE,
    Restore,
    World,
    ended_in_the_pause,
    handed_over,
    orders,
    warnings,
    world_of,
    worlds,
)

STRANGER = "somebody.else@elsewhere.example"  # is written into stored content only
ENDED = ("succeeded", "failed", "rejected", "cancelled", "expired", "superseded")
# Each of these makes the earlier approvals void: by the next round, or by another revision.
NEXT_ROUND = ("undone", "edited", "changes_requested", "returned", "approvals_void")
NEXT_REVISION = ("edited", "noticed")
VOIDED = {*NEXT_ROUND, *NEXT_REVISION}
AFTER_A_RESTORE = "may_have_been_sent"  # the one notice with a round of its own
# Two writers may race here and the database decides which one was first; the second takes it for an
# answer.
EXPECTED = (
    *("action_one_leaving_a_mailbox", "idempotency_key_once", "pause_once_a_reason"),
    *("approvals_auditchain_pkey", "approvals_rest_pkey", "approvals_instance_pkey"),
)
# The same on SQLite, whose log has room only for the beginning of the statement.
RACED_TABLES = "idempotencyrecord|auditchain|rest|pause|instance"
EXPECTED_STATEMENTS = re.compile(
    rf"\[(UPDATE \"approvals_pendingaction\"|INSERT INTO \"approvals_({RACED_TABLES})\")"
)
# https://sqlite.org/rescode.html: the lowest byte of a code is its kind.
SQLITE_REFUSES = (11, 19, 26)  # a corrupt database, a constraint, a file that is no database
SQLITE_UNIQUE = (2067, 1555)


def check(
    ledger: Sequence[Entry], tables: Tables, traces: Traces, restores: Sequence[Restore] = ()
) -> list[Violation]:
    """Return everything that broke the promise; an empty list if nothing did."""
    found = worlds(tables, restores)
    return [
        *sent_without_approval(ledger, found),
        *sent_after_withdrawal(traces.withdrawals, found),
        *sent_early(found),
        *sent_twice(ledger, found),
        *called_again(traces.calls, found),
        *ruled_otherwise(traces.rulings, found),
        *not_the_truth(ledger, found, restores),
        *not_journaled(ledger, found, traces.journaled),
        *stuck(tables),
        *expired(found),
        *told(traces),
        *(Violation(invariant=6, name="database_refused", about=text) for text in traces.refusals),
    ]


def sent_without_approval(ledger: Sequence[Entry], found: Sequence[World]) -> Iterator[Violation]:
    """Check 1: enough people approved what was sent, in the round that was in force."""
    late: Counter[str] = Counter()
    for entry in ledger:
        world = world_of(entry.at, found)
        broken = _unapproved(entry, world)
        if broken and _is_late(entry, world, late):
            continue
        if broken:
            yield broken


def _unapproved(entry: Entry, world: World) -> Violation | None:
    action = next(
        (action for action in world.tables.actions if action.message_id == entry.message_id), None
    )
    if action is None:
        return Violation(invariant=1, name="sent_without_action", about=entry.message_id)
    same = [
        revision
        for revision in world.tables.revisions
        if revision.action == action.id and _is_of(entry, revision.payload) and _fits(revision)
    ]
    if not same or STRANGER in entry.recipients:
        return Violation(invariant=1, name="other_bytes_than_stored", about=action.id)
    approvals = [list(_approvals(action, revision, entry.at, world)) for revision in same]
    if not any(_enough(given, action, world) for given in approvals):
        return Violation(invariant=1, name="sent_without_approval", about=action.id)
    claimed = _claimed(action, entry.at, world)
    proven = [
        [each for each in given if counts(each, action, claimed, world.tables)]
        for given in approvals
    ]
    if not any(_enough(given, action, world) for given in proven):
        return Violation(invariant=1, name="approved_by_no_member", about=action.id)
    return None


def _is_late(entry: Entry, world: World, late: Counter[str]) -> bool:
    """Return True if the provider carried out, after a restore, an order from before it.

    Count it in `late`.
    """
    if world.before is None or world.begins is None or entry.at > world.begins + LATE:
        return False
    ids = [action.id for action in world.before.actions if action.message_id == entry.message_id]
    open_ = sum(attempt.action in ids and attempt.unproven for attempt in world.before.attempts)
    late[entry.message_id] += 1
    return (
        late[entry.message_id] <= open_ and _unapproved(entry, World(tables=world.before)) is None
    )


def _is_of(entry: Entry, payload: Mapping[str, Any]) -> bool:
    """Return True if the bytes are the same, or all of the content if the provider writes the bytes
    itself.
    """
    named = sorted([*payload["to"], *payload["cc"], *payload["bcc"]])
    told = content_of_payload(payload) if entry.content else payload["source_sha256"]
    return (told, payload["from"], named) == (
        entry.content or entry.sha256,
        entry.sender,
        sorted(entry.recipients),
    )


def _fits(revision: Revision) -> bool:
    """Return True if the digest fits. Written out again, because a check must not use the checked
    code.
    """
    canonical = json.dumps(
        revision.payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(canonical.encode()).hexdigest() == revision.digest


def _claimed(action: Action, at: datetime, world: World) -> datetime:
    """Return when the worker claimed the action that was sent at that time."""
    started = [
        attempt.started_at for attempt in world.tables.attempts if attempt.action == action.id
    ]
    return max((each for each in started if each is not None and each <= at), default=at)


def _approvals(
    action: Action, revision: Revision, at: datetime, world: World
) -> Iterator[Decision]:
    """Yield the approvals of the revision and in the round that were in force at that time."""
    tables = world.tables
    made_void = [
        event
        for event in tables.events
        if event.action == action.id and event.event in VOIDED and event.at < at
    ]
    rounds = [
        event.at
        for event in made_void
        if event.event in NEXT_ROUND or event.code == AFTER_A_RESTORE
    ]
    rounds += [
        attempt.ruled_at
        for attempt in tables.attempts
        if attempt.action == action.id and attempt.ruled_at and attempt.ruled_at < at
    ]
    newer = sum(event.event in NEXT_REVISION for event in made_void)
    void_at = max((event.at for event in made_void), default=None)
    forgotten_at = world.forgotten_at.get(action.id)
    for decision in tables.decisions:
        if (
            (decision.action, decision.verdict) == (action.id, "approved")
            and (decision.revision, decision.digest) == (revision.number, revision.digest)
            and decision.revision > newer
            and decision.approval_round == 1 + len(rounds)
            and decision.at < at
            and (void_at is None or decision.at > void_at)
            and (forgotten_at is None or decision.at > forgotten_at)
            and (action.approvals_needed == 1 or decision.person != action.proposer)
        ):
            yield decision


def _enough(given: Sequence[Decision], action: Action, world: World) -> bool:
    # An action that was approved in a restored copy goes to a person first.
    proven = action.id in world.in_doubt and action.id not in world.forgotten_at
    renewed = (
        world.begins is None or proven or any(decision.at > world.begins for decision in given)
    )
    return renewed and len({decision.person for decision in given}) >= action.approvals_needed


def sent_after_withdrawal(
    withdrawals: Sequence[Withdrawal], found: Sequence[World]
) -> Iterator[Violation]:
    """Check 1: a mail that was claimed after a withdrawal has enough approvals from after it.

    A restored database does not know the withdrawals before it; there every approval is a new one.
    """
    for gone in withdrawals:
        tables = world_of(gone.began, found).tables
        concerned = {
            each.id: each for each in tables.actions if gone.subject in (each.token, each.mailbox)
        }
        for attempt in tables.attempts:
            action, at = concerned.get(attempt.action), attempt.started_at
            if action is None or at is None or at <= gone.ended or attempt.phase != "wire_started":
                continue
            people = {
                each.person
                for each in tables.decisions
                if (each.action, each.verdict) == (action.id, "approved")
                and gone.began < each.at < at
            }
            if len(people) < action.approvals_needed:
                yield Violation(invariant=1, name="sent_after_withdrawal", about=action.id)


def sent_early(found: Sequence[World]) -> Iterator[Violation]:
    """Check 1: whatever the worker's clock says, a mail waits until nobody can undo its approval."""
    for attempt in handed_over(found):
        if attempt.is_early:
            yield Violation(invariant=1, name="sent_early", about=attempt.action)


def sent_twice(ledger: Sequence[Entry], found: Sequence[World]) -> Iterator[Violation]:
    """Check 2: each copy but the first was ordered by a person before it was sent."""
    for action in _actions(found):
        copies = sorted(entry.at for entry in ledger if entry.message_id == action.message_id)
        ordered = orders(action, found)
        for number, at in enumerate(copies[1:]):
            if number >= len(ordered) or ordered[number] >= at:
                yield Violation(
                    invariant=2, name="sent_twice", about=f"{action.id}, {len(copies)} times"
                )
                break


def _actions(found: Sequence[World]) -> list[Action]:
    """Return each action once, as in the latest world that knows it."""
    return list({action.id: action for world in found for action in world.tables.actions}.values())


def called_again(calls: Mapping[str, int], found: Sequence[World]) -> Iterator[Violation]:
    """Check 2 at the provider: a send that was called twice may have had its effect once, or not at
    all.
    """
    known = {action.message_id for action in _actions(found)}
    for message_id in calls.keys() - known:
        yield Violation(invariant=2, name="called_without_action", about=message_id)
    began = Counter(attempt.action for attempt in handed_over(found))
    for action in _actions(found):
        if calls.get(action.message_id, 0) > began[action.id]:
            yield Violation(
                invariant=2,
                name="called_again",
                about=f"{action.id}, {calls[action.message_id]} times",
            )
    for world in found:
        attempts = list(handed_over([world]))
        for action in world.tables.actions:
            earlier = [attempt for attempt in attempts if attempt.action == action.id][:-1]
            if any(attempt.verdict != "not_sent" and not attempt.ruled_at for attempt in earlier):
                yield Violation(invariant=2, name="tried_again", about=action.id)


def ruled_otherwise(rulings: Sequence[Ruling], found: Sequence[World]) -> Iterator[Violation]:
    """Check 2: an order of another copy, or of none, is about the attempt on the person's page, and
    always comes from a person.
    """
    for world in found:
        for attempt in world.tables.attempts:
            posted = [
                each
                for each in rulings
                if (each.action, each.fence) == (attempt.action, attempt.fence)
            ]
            is_last = not any(
                each.action == attempt.action and each.fence > attempt.fence
                for each in world.tables.attempts
            )
            if attempt.ruled_at and not any(
                (each.ruling == "not_sent" or (each.ruling == "withdrawn" and is_last))
                and each.taken is not False
                and each.began <= attempt.ruled_at
                for each in posted
            ):
                yield Violation(
                    invariant=2, name="ruled_by_nobody", about=f"{attempt.action} {attempt.fence}"
                )
    for each in rulings:
        if each.taken and not any(
            _is_ruled(attempt, each) for attempt in world_of(each.ended, found).tables.attempts
        ):
            yield Violation(
                invariant=2, name="ruling_of_another_attempt", about=f"{each.action} {each.fence}"
            )


def _is_ruled(attempt: Attempt, ruling: Ruling) -> bool:
    if (attempt.action, attempt.fence) != (ruling.action, ruling.fence):
        return False
    if ruling.ruling == "sent":
        return attempt.verdict == "accepted"
    return attempt.ruled_at is not None and ruling.began <= attempt.ruled_at <= ruling.ended


def not_the_truth(
    ledger: Sequence[Entry], found: Sequence[World], restores: Sequence[Restore]
) -> Iterator[Violation]:
    """Check 3, and that an action is unknown only where it may have been sent."""
    sent = {entry.message_id for entry in ledger}
    tables = found[-1].tables
    last = {
        attempt.action: attempt
        for attempt in sorted(tables.attempts, key=lambda attempt: attempt.fence)
    }
    for action in tables.actions:
        tried = [attempt for attempt in tables.attempts if attempt.action == action.id]
        # Its copy in Sent, which mailhub made then, outlives a restore and is found there.
        by_person = any(
            (attempt.action, attempt.verdict, attempt.evidence) == (action.id, "accepted", "person")
            for world in found
            for attempt in world.tables.attempts
        )
        if action.status == "succeeded" and action.message_id not in sent and not by_person:
            yield Violation(invariant=3, name="said_sent_and_was_not", about=action.id)
        # Then a late answer is recorded beside the state.
        ordered = any(attempt.ruled_at for attempt in tried)
        told = any(
            attempt.unproven or (ordered and attempt.verdict == "accepted") for attempt in tried
        )
        said = (
            action.status in ("succeeded", "unknown")
            or told
            or _was_warned(action, found[-1], restores)
        )
        if action.message_id in sent and not said:
            yield Violation(
                invariant=3, name="was_sent_and_not_said", about=f"{action.id} {action.status}"
            )
        if action.status == "unknown" and (
            action.id not in last or last[action.id].phase != "wire_started"
        ):
            yield Violation(invariant=3, name="unknown_before_the_wire", about=action.id)


def not_journaled(
    ledger: Sequence[Entry], found: Sequence[World], journaled: Mapping[str, int] | None
) -> Iterator[Violation]:
    """Check 3: what left is in a send journal, whatever the database has lost."""
    copies = Counter(entry.message_id for entry in ledger)
    for action in _actions(found):
        if journaled is not None and copies[action.message_id] > journaled.get(action.id, 0):
            yield Violation(invariant=3, name="sent_and_not_journaled", about=action.id)


def _was_warned(action: Action, world: World, restores: Sequence[Restore]) -> bool:
    """Return True if an action that a restore made forgotten came with a warning that it may have
    been sent, or ended before that.
    """
    if action.id not in world.forgotten_at:
        return False
    return any(
        event.at > world.forgotten_at[action.id]
        for event in warnings(action, replace(world, begins=None))
    ) or (ended_in_the_pause(action, world.tables, restores))


def stuck(tables: Tables) -> Iterator[Violation]:
    """Check 4."""
    for action in tables.actions:
        if action.status not in (*ENDED, "unknown"):
            yield Violation(invariant=4, name="stuck", about=f"{action.id} {action.status}")


def expired(found: Sequence[World]) -> Iterator[Violation]:
    """Check 4: a run is shorter than the time that a proposal waits."""
    late = {
        each.action for world in found for each in world.tables.events if each.event == "expired"
    }
    yield from (Violation(invariant=4, name="expired", about=action) for action in sorted(late))


def told(traces: Traces) -> Iterator[Violation]:
    """Check 5."""
    for found in traces.audit:
        yield Violation(invariant=5, name="audit", about=found)
    for place, text in traces.texts.items():
        for canary in traces.canaries:
            if canary in text:
                line = next(line for line in text.splitlines() if canary in line)
                yield Violation(invariant=5, name="canary", about=f"{place}: {line[:200]}")


def refused_by(log: str, guards: Collection[str]) -> list[str]:
    """Return the lines of a database's log in which a guard refused, or a constraint that no code
    should violate.
    """
    return [*_refused_by_postgres(log, guards), *_refused_by_sqlite(log)]


def _refused_by_sqlite(log: str) -> Iterator[str]:
    """Yield the refusals. Each line begins with a code. All triggers are guards, so their names
    need not be known.
    """
    for line in log.splitlines():
        first = line.partition(" ")[0]
        code = int(first) if first.isdecimal() else 0
        second = code in SQLITE_UNIQUE and EXPECTED_STATEMENTS.search(line)
        if code & 0xFF in SQLITE_REFUSES and not second:
            yield line


def _refused_by_postgres(log: str, guards: Collection[str]) -> list[str]:
    named = re.compile(r"ERROR:  (?:(?P<rule>\w+): |.*constraint \"(?P<constraint>\w+)\")")
    return [
        line
        for line in log.splitlines()
        if (found := named.search(line))
        and (
            found["rule"] in guards
            or (found["constraint"] is not None and found["constraint"] not in EXPECTED)
        )
    ]
