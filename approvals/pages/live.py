"""Live updates of open pages and waiting programs: other viewers, changes, and notifications.

The ids of audit events are the clock: a page knows the last one it has seen and asks for later
changes. The hub only notifies. One thread in a process queries the database for all pages that are
open there and all programs that wait there, and it ends if nobody needs it.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from django.db import DatabaseError, connection
from django.utils import timezone

from accounts.models import Mailbox, Membership, User
from approvals.models import AuditEvent, Presence
from approvals.models.pages import PRESENT

log = structlog.get_logger(__name__)

# every second round also queries presence or memberships: one statement a second
LOOK_SECONDS = 1.5
MEMBERS_EVERY = 8  # rounds
PING_SECONDS = 15.0
STREAM_SECONDS = 300.0  # then the browser reconnects, and its session is checked again
# Transactions commit in another order than they took their ids, so an event may appear after a
# later one.
OVERLAP = 20
FORGET = timedelta(hours=1)
MOST_CHANGES = 200


def last_event() -> int:
    """Return the id of the newest audit event; 0 before the first."""
    return AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def last_event_of(action_id: UUID) -> int:
    """Return the id of the newest audit event of an action; 0 before the first.

    The events of one action are committed in the order of their ids.
    """
    mine = AuditEvent.objects.filter(action_id=action_id).order_by("-pk")
    return mine.values_list("pk", flat=True).first() or 0


def find_changes(mailboxes: Sequence[Mailbox], event: int) -> tuple[list[UUID], int]:
    """Return the changed actions of these mailboxes, and the last event that this answer covers."""
    newer = AuditEvent.objects.filter(pk__gt=max(event - OVERLAP, 0)).order_by("pk")
    rows = list(newer.values_list("pk", "mailbox_id", "action_id")[:MOST_CHANGES])
    mine = {mailbox.pk for mailbox in mailboxes}
    found = dict.fromkeys(
        action for _, mailbox, action in rows if action is not None and mailbox in mine
    )
    return list(found), max([event, *(pk for pk, _, _ in rows)])


def record_presence(person: User, action_id: UUID) -> None:
    """Record that this person has the action open; repeat it while they have."""
    now = timezone.now()
    Presence.objects.update_or_create(action_id=action_id, person=person, defaults={"seen_at": now})
    Presence.objects.filter(seen_at__lt=now - FORGET).delete()


def delete_presence(person: User, action_id: UUID) -> None:
    Presence.objects.filter(action=action_id, person=person).delete()


def find_present(
    action_ids: Iterable[UUID], *, mailboxes: Sequence[Mailbox], but: User
) -> dict[UUID, list[str]]:
    """Return the names of others who have each of these open, only within these mailboxes."""
    fresh = Presence.objects.filter(
        action__in=list(action_ids),
        action__mailbox__in=mailboxes,
        seen_at__gt=timezone.now() - PRESENT,
    )
    found: dict[UUID, list[str]] = {}
    for row in fresh.exclude(person=but).select_related("person").order_by("person__email"):
        found.setdefault(row.action_id, []).append(row.person.get_short_name() or str(row.person))
    return found


@dataclass(eq=False, kw_only=True)
class Listener:
    """One open page.

    The hub keeps `mailboxes` up to date; `newest` holds the newest event, if any.
    """

    person_id: int
    mailboxes: frozenset[UUID]
    loop: asyncio.AbstractEventLoop
    newest: "asyncio.Queue[int]"

    def notify(self, event: int) -> None:
        """Notify the page of an event, from the hub's thread."""
        self.loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: int) -> None:
        if self.newest.full():
            self.newest.get_nowait()
        self.newest.put_nowait(event)


@dataclass(eq=False, kw_only=True)
class Waiter:
    """A program that waits for the next event of one action; it costs no thread and no query.

    `after` is the newest event of the action when the wait began. The hub may read that event
    later, because it looks only now and then.
    """

    action_id: UUID
    after: int
    loop: asyncio.AbstractEventLoop
    happened: asyncio.Event

    def notify(self) -> None:
        """Wake the program up, from the hub's thread."""
        # The loop is closed if the server has ended meanwhile.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.happened.set)


class Hub:
    """The open pages and waiting programs of this process, and the thread that queries for them."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._waiters: dict[UUID, set[Waiter]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._floor: int | None = None

    def add(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.add(listener)
            self._start(None)

    def remove(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.discard(listener)

    def add_waiter(self, waiter: Waiter, *, floor: int) -> None:
        """Notify a program of the events after `floor`, a result of `last_event` just before.

        The program must look at the action after this call: an earlier look could miss an event.
        """
        with self._lock:
            self._waiters.setdefault(waiter.action_id, set()).add(waiter)
            self._start(floor)

    def remove_waiter(self, waiter: Waiter) -> None:
        with self._lock:
            others = self._waiters.get(waiter.action_id, set())
            others.discard(waiter)
            if not others:
                self._waiters.pop(waiter.action_id, None)

    def _start(self, floor: int | None) -> None:
        if self._thread is None:
            self._floor = floor
            self._thread = threading.Thread(target=self._follow, name="live", daemon=True)
            self._thread.start()

    def _current(self) -> list[Listener] | None:
        """Return the open pages; None ends the thread, because nobody needs it."""
        with self._lock:
            if not self._listeners and not self._waiters:
                self._thread = None
                return None
            return list(self._listeners)

    def _wake(self, action_id: UUID | None, event: int) -> None:
        with self._lock:
            waiting = list(self._waiters.get(action_id, ())) if action_id else []
        for waiter in waiting:
            if event > waiter.after:
                waiter.notify()

    def _follow(self) -> None:
        seen: dict[int, float] = {}
        here: set[tuple[UUID, int, UUID]] = set()
        floor = self._floor
        looks = 0
        try:
            while (listeners := self._current()) is not None:
                looks += 1
                try:
                    if floor is None:
                        floor = last_event()
                    full = True
                    while full:
                        floor, full = _notify_of_events(listeners, self._wake, floor, seen)
                    self._floor = floor
                    if looks % MEMBERS_EVERY == 0:
                        _refresh(listeners)
                    elif looks % 2:
                        here = _notify_of_people(listeners, floor, here)
                except DatabaseError:  # the pages poll meanwhile
                    log.exception("live_failed")
                    connection.close()
                time.sleep(LOOK_SECONDS)
        finally:
            connection.close()


HUB = Hub()


async def stream(
    person: User, mailboxes: frozenset[UUID], *, since: int, now: int
) -> AsyncIterator[str]:
    """Yield server-sent events for one page.

    They are the id of the newest event of its mailboxes, and a ping when it is quiet.
    """
    listener = Listener(
        person_id=person.pk,
        mailboxes=mailboxes,
        loop=asyncio.get_running_loop(),
        newest=asyncio.Queue(maxsize=1),
    )
    HUB.add(listener)
    ends = time.monotonic() + STREAM_SECONDS
    try:
        yield "retry: 3000\n\n"
        # Events that were missed while the connection was lost; if none was missed, the page asks
        # once in vain.
        yield f"id: {now}\ndata: {now}\n\n" if since and now > since else ": hello\n\n"
        while time.monotonic() < ends:
            try:
                event = await asyncio.wait_for(listener.newest.get(), PING_SECONDS)
            except TimeoutError:
                yield ": ping\n\n"
            else:
                yield f"id: {event}\ndata: {event}\n\n"
    finally:
        HUB.remove(listener)


def _notify_of_events(
    listeners: list[Listener],
    wake: Callable[[UUID | None, int], None],
    floor: int,
    seen: dict[int, float],
) -> tuple[int, bool]:
    """Notify of each event since the last query.

    Return where the next query starts, and True if it must follow at once: there are more events.
    """
    rows = list(
        AuditEvent.objects.filter(pk__gt=max(floor - OVERLAP, 0))
        .order_by("pk")
        .values_list("pk", "mailbox_id", "action_id")[:MOST_CHANGES]
    )
    begun = bool(seen)
    start = floor
    for pk, mailbox_id, action_id in rows:
        if pk in seen:
            continue
        if begun or pk > start:
            wake(action_id, pk)
            for listener in listeners:
                if mailbox_id in listener.mailboxes:
                    listener.notify(pk)
        seen[pk] = time.monotonic()
        floor = max(floor, pk)
    for pk in [pk for pk in seen if pk <= floor - 2 * OVERLAP]:
        del seen[pk]
    return floor, len(rows) == MOST_CHANGES and floor > start


def _notify_of_people(
    listeners: list[Listener], floor: int, before: set[tuple[UUID, int, UUID]]
) -> set[tuple[UUID, int, UUID]]:
    """Notify if somebody has come or gone; return the present people and their actions."""
    fresh = Presence.objects.filter(seen_at__gt=timezone.now() - PRESENT)
    now = set(fresh.values_list("action_id", "person_id", "action__mailbox_id"))
    stirred = {mailbox_id for _, _, mailbox_id in now ^ before}
    for listener in listeners:
        if stirred & listener.mailboxes:
            listener.notify(floor)
    return now


def _refresh(listeners: list[Listener]) -> None:
    """Update the mailboxes of each listener; a deactivated person gets no further events."""
    members = Membership.objects.filter(
        user__in={each.person_id for each in listeners}, user__is_active=True
    )
    found: dict[int, set[UUID]] = {}
    for person_id, mailbox_id in members.values_list("user_id", "mailbox_id"):
        found.setdefault(person_id, set()).add(mailbox_id)
    for listener in listeners:
        listener.mailboxes = frozenset(found.get(listener.person_id, ()))
