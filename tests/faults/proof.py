"""One run of the proof: work, trouble, healing, and the check of the promise."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from approvals.guards.rules import RULES
from tests.faults import checker
from tests.faults.databases import Connection
from tests.faults.facts import Tables, Traces, Violation
from tests.faults.generator import Office
from tests.faults.nemesis import Nemesis
from tests.faults.plan import OFFICES, Plan, Setup
from tests.faults.plant import Plant
from tests.faults.provider import Entry
from tests.faults.providers import Providers
from tests.faults.tables import id_of
from tests.faults.worlds import Restore

LOOK_SECONDS = 0.5
JOIN_SECONDS = 60
# Each statement ends a wait. The times may be hours away, if a wrong clock wrote them.
WAITS = (
    "UPDATE approvals_rest SET until = now() WHERE until > now()",
    "UPDATE approvals_pendingaction SET not_before = now(),"
    " undo_until = CASE WHEN undo_until > now() THEN now() ELSE undo_until END"
    " WHERE status = 'approved' AND not_before > now()",
    "UPDATE approvals_pendingaction SET next_probe_at = now()"
    " WHERE status = 'unknown' AND next_probe_at > now()",
    "UPDATE accounts_tokenrefresh SET try_again_at = now() WHERE try_again_at > now()",
)
GUARDS = frozenset(rule.name for rule in RULES)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The events of a run, and the violations of the promise."""

    setup: Setup
    seconds: float
    healing_seconds: float
    answers: Counter[str]
    faults: Counter[str]
    blows: Counter[str]
    ledger: tuple[Entry, ...]
    tables: Tables
    restores: tuple[Restore, ...]
    unknowns: Counter[str]
    violations: list[Violation] = field(default_factory=list)

    @property
    def states(self) -> Counter[str]:
        return Counter(action.status for action in self.tables.actions)

    def tell(self, violation: Violation) -> str:
        """Return the violation, and if it names an action, all that each database knew of it."""
        named = violation.about.partition(" ")[0].rstrip(",")
        worlds = [*((restore.at, restore.lost) for restore in self.restores), ("end", self.tables)]
        lines = [str(violation)]
        for until, tables in worlds:
            rows = [
                *(each for each in tables.actions if each.id == named),
                *(
                    each
                    for table in (tables.decisions, tables.attempts, tables.events)
                    for each in table
                    if each.action == named
                ),
            ]
            if rows:
                lines += [f"  until {until}:", *(f"    {row}" for row in rows)]
        ids = {
            each.message_id for _, tables in worlds for each in tables.actions if each.id == named
        }
        lines += [f"  sent {entry.at}" for entry in self.ledger if entry.message_id in ids]
        if ids:
            lines += [f"  restored {restore.at} to {restore.ended}" for restore in self.restores]
        return "\n".join(lines)


def prove(setup: Setup, plan: Plan, home: Path) -> Report:
    """Run the proof, and return its report.

    1. Work and trouble, until the time is over or all is decided. 2. Trouble ends; actions that
    wait for a clock become due. 3. A person rules about half of the unknown actions. 4. The
    checker.
    """
    with Plant(setup, home, Providers(setup, plan), recorded=plan.power_cuts > 0) as plant:
        started = time.monotonic()
        offices = [Office(plant, number, calm=plan.calm) for number in range(OFFICES)]
        nemesis = Nemesis(plant, plan)
        jobs = _trouble(plan, plant, offices, nemesis)
        ended = time.monotonic()
        plant.provider.heal()
        nemesis.heal()
        _heal(plant, plan)
        offices[0].reject_all(_ids(plant, "status = 'pending'"))
        rulings = [ruling for office in offices for ruling in office.rulings]
        if plan.rules:
            unknown = _ids(plant, "status = 'unknown'")
            rulings += plant.rule(Random(f"{setup.seed} ruling").sample(unknown, len(unknown) // 2))
            _heal(plant, plan)
        healed = time.monotonic()
        texts = {
            "log": plant.log(),
            "output": (home / "stdout").read_text(),
            "jobs": "\n".join([*jobs, plant.jobs()]),
            "metrics": plant.metrics(),
            "error pages": "\n".join(text for office in offices for text in office.errors),
        }
        traces = Traces(
            texts=texts,
            canaries=plant.canaries(),
            audit=plant.audit(),
            refusals=checker.refused_by(plant.server.refusals(), GUARDS),
            calls=plant.provider.calls(),
            rulings=rulings,
            withdrawals=nemesis.rights.withdrawals,
            journaled=plant.journaled(),
        )
        tables = plant.tables()
        with plant.database() as connection:
            unknowns = _how_unknowns_ended(connection, plant.provider.ledger.entries(), tables)
        ledger = plant.provider.ledger.entries()
        return Report(
            setup=setup,
            seconds=ended - started,
            healing_seconds=healed - ended,
            answers=sum((office.found for office in offices), Counter()),
            faults=plant.provider.faults,
            blows=nemesis.blows,
            ledger=ledger,
            tables=tables,
            restores=tuple(nemesis.restores),
            unknowns=unknowns,
            violations=checker.check(ledger, tables, traces, nemesis.restores),
        )


def _trouble(plan: Plan, plant: Plant, offices: list[Office], nemesis: Nemesis) -> list[str]:
    """Run everybody at once, and return the content seen in the broker meanwhile."""
    seen: list[str] = []
    errors: list[BaseException] = []

    def work(number: int, office: Office) -> None:
        try:
            # its share, with nothing left out
            office.run(len(range(number, plan.proposals, len(offices))))
        except BaseException as error:  # raised below, in the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in enumerate(offices)]

    def go_on() -> bool:
        seen.append(plant.jobs())
        done = (
            plan.calm and not any(thread.is_alive() for thread in threads) and not _waiting(plant)
        )
        return not errors and not done

    for thread in threads:
        thread.start()
    try:
        nemesis.run(seconds=plan.seconds, go_on=go_on)
    finally:
        for office in offices:
            office.stop.set()
        for thread in threads:
            thread.join(JOIN_SECONDS)
    if errors:
        raise errors[0]
    return seen


def _waiting(plant: Plant) -> list[str]:
    return _ids(plant, "status IN ('approved', 'executing')")


def _ids(plant: Plant, condition: str) -> list[str]:
    with plant.database() as connection:
        rows = connection.execute(
            f"SELECT id FROM approvals_pendingaction WHERE {condition} ORDER BY created_at"
        ).fetchall()
    return [id_of(action_id) for (action_id,) in rows]


def _heal(plant: Plant, plan: Plan) -> None:
    """Move the times of waiting rows until none waits: the programs only see that it is later."""
    deadline = time.monotonic() + plan.heal_seconds
    open_ = (
        "status IN ('approved', 'executing') OR (status = 'unknown' AND next_probe_at IS NOT NULL)"
    )
    while _ids(plant, open_) and time.monotonic() < deadline:
        with plant.database(writes=True) as connection:
            for statement in WAITS:
                connection.execute(statement)
        time.sleep(LOOK_SECONDS)


def _how_unknowns_ended(
    connection: Connection, ledger: tuple[Entry, ...], tables: Tables
) -> Counter[str]:
    """Count each action that was unknown at some time by its final state."""
    rows = connection.execute(
        "SELECT action_id FROM approvals_auditevent WHERE event = 'outcome_unknown'"
    ).fetchall()
    doubted = {id_of(action_id) for (action_id,) in rows}
    sent = {entry.message_id for entry in ledger}
    ended: Counter[str] = Counter()
    for action in tables.actions:
        if action.id not in doubted:
            continue
        evidence = {attempt.evidence for attempt in tables.attempts if attempt.action == action.id}
        if action.status == "unknown":
            ended[
                f"left to a person, {'sent' if action.message_id in sent else 'not sent'} in truth"
            ] += 1
        elif any(attempt.action == action.id and attempt.ruled_at for attempt in tables.attempts):
            ended["sent again by a person's order"] += 1
        elif any(
            (attempt.action, attempt.verdict, attempt.evidence) == (action.id, "accepted", "person")
            for attempt in tables.attempts
        ):
            ended["closed as sent by a person"] += 1
        elif "probe" in evidence:
            ended["found in Sent"] += 1
        else:
            ended["told by the worker's late answer"] += 1
    return ended
