"""Restores of an older copy: earlier events are judged by the lost database, the others by the
remaining one.

After a restore, an action that was handed over before is sent again only with an approval from
after the restore.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.faults.facts import Action, Attempt, Event, Tables

WARNED = "may_have_been_sent"
# A provider may still carry out an order of a program that is gone: the maximum time of a call,
# with a margin.
LATE = timedelta(seconds=15)


@dataclass(frozen=True, kw_only=True)
class Restore:
    """One restore: the database right before it, and the copy right after it.

    Mail could be sent again from `ended`.
    """

    at: datetime
    ended: datetime
    lost: Tables
    copy: Tables


@dataclass(frozen=True, kw_only=True)
class World:
    """The database from one restore to the next. The first has no beginning.

    `forgotten_at`: the actions whose handover a restore made the database forget, with the time of the last
    such restore. `before`: the data that the restore at its beginning lost. `in_doubt`: the actions
    that the copy knew only as handed over. A proof that they were not sent may still come, and then
    their approval is valid.
    """

    tables: Tables
    begins: datetime | None = None
    forgotten_at: Mapping[str, datetime] = field(default_factory=dict)
    before: Tables | None = None
    in_doubt: frozenset[str] = frozenset()


def worlds(tables: Tables, restores: Sequence[Restore]) -> list[World]:
    """Return the database of each time, oldest first; `tables` is that of the end."""
    ends = [*(restore.lost for restore in restores), tables]
    found = [World(tables=ends[0])]
    forgotten_at: dict[str, datetime] = {}
    for restore, end in zip(restores, ends[1:], strict=True):
        forgotten_at = forgotten_at | dict.fromkeys(forgotten(restore), restore.at)
        doubt = frozenset(attempt.action for attempt in restore.copy.attempts if attempt.unproven)
        found.append(
            World(
                tables=end,
                begins=restore.at,
                forgotten_at=forgotten_at,
                before=restore.lost,
                in_doubt=doubt,
            )
        )
    return found


def forgotten(restore: Restore) -> frozenset[str]:
    """Return the actions that were handed over in an attempt that the copy does not know as
    such.
    """
    known = {_key(attempt) for attempt in _on_wire(restore.copy)}
    return frozenset(
        attempt.action for attempt in _on_wire(restore.lost) if _key(attempt) not in known
    )


def world_of(at: datetime, found: Sequence[World]) -> World:
    """Return the world in which the event at that time happened."""
    return [world for world in found if world.begins is None or world.begins <= at][-1]


def handed_over(found: Sequence[World]) -> Iterator[Attempt]:
    """Yield each attempt that began a handover in any world, once; oldest first."""
    seen: dict[object, Attempt] = {}
    for world in found:
        for attempt in _on_wire(world.tables):
            seen[_key(attempt)] = attempt
    yield from sorted(
        seen.values(), key=lambda attempt: (attempt.fence, attempt.started_at is None)
    )


def orders(action: Action, found: Sequence[World]) -> list[datetime]:
    """Return when a person ordered another copy: by a ruling, or by approving an action that a
    restore made forgotten.
    """
    ruled = {
        attempt.ruled_at
        for world in found
        for attempt in world.tables.attempts
        if attempt.action == action.id and attempt.ruled_at
    }
    return sorted([*ruled, *filter(None, (_approved_anew(action, world) for world in found))])


def _approved_anew(action: Action, world: World) -> datetime | None:
    if world.begins is None or world.forgotten_at.get(action.id) != world.begins:
        return None
    told = [event.at for event in warnings(action, world)]
    given = [
        decision.at
        for decision in world.tables.decisions
        if (decision.action, decision.verdict) == (action.id, "approved")
        and told
        and decision.at > min(told)
    ]
    return min(given, default=None)


def warnings(action: Action, world: World) -> list[Event]:
    """Return the events of this world that said of the action that it may have been sent."""
    return [
        event
        for event in world.tables.events
        if (event.action, event.code) == (action.id, WARNED)
        and (world.begins is None or event.at > world.begins)
    ]


def ended_in_the_pause(action: Action, tables: Tables, restores: Sequence[Restore]) -> bool:
    """Return True if the action ended while everything was paused, before mailhub had looked at it
    again.
    """
    return any(
        event.action == action.id
        and event.event in ("rejected", "cancelled", "expired")
        and any(restore.at < event.at < restore.ended for restore in restores)
        for event in tables.events
    )


def _on_wire(tables: Tables) -> Iterator[Attempt]:
    return (attempt for attempt in tables.attempts if attempt.phase == "wire_started")


def _key(attempt: Attempt) -> object:
    return attempt.action, attempt.fence, attempt.started_at
