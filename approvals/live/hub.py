"""The live hub: one thread in a process follows the audit events for pages and waiting programs.

It only notifies: a page or a program then asks for what it may see. The thread ends if nobody needs
it.
"""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from accounts.models import Membership
from approvals.audit.feed import Feed, Pace, Row
from approvals.models import Presence
from approvals.models.pages import PRESENT

log = structlog.get_logger(__name__)

PEOPLE_SECONDS = 3.0
MEMBERS_SECONDS = 12.0
WAITERS_OF_PERSON = 100
WAITERS_OF_PROCESS = 1000


@dataclass(eq=False, kw_only=True)
class Listener:
    """One open page.

    The hub keeps `mailboxes` up to date. `oldest` holds the oldest event that the page has not been
    notified of, if any.
    """

    person_id: int
    mailboxes: frozenset[UUID]
    loop: asyncio.AbstractEventLoop
    oldest: "asyncio.Queue[int]"

    def notify(self, event: int) -> None:
        """Notify the page of an event, from the hub's thread."""
        with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
            self.loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: int) -> None:
        waiting = [self.oldest.get_nowait()] if self.oldest.full() else []
        self.oldest.put_nowait(min([event, *waiting]))


@dataclass(eq=False, kw_only=True)
class Waiter:
    """A program that waits for the next event of one action; it costs no thread and no query.

    `after` is the newest event of the action when the wait began. The hub may read that event
    later.
    """

    person_id: int
    action_id: UUID
    after: int
    loop: asyncio.AbstractEventLoop
    happened: asyncio.Event

    def notify(self) -> None:
        """Wake the program up, from the hub's thread."""
        with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
            self.loop.call_soon_threadsafe(self.happened.set)


class Hub:
    """The open pages and waiting programs of this process, and the thread that queries for them."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._waiters: dict[UUID, set[Waiter]] = {}
        self._waiting = Counter[int]()  # waiters, by person
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._floor = 0

    def add(self, listener: Listener, *, seen: int) -> None:
        """Notify a page of the events after `seen`, a result of `last_event` just before."""
        with self._lock:
            self._start(seen)
            self._listeners.add(listener)
            if self._floor > seen:  # they were read before this page was here
                listener.notify(seen + 1)

    def remove(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.discard(listener)

    def add_waiter(self, waiter: Waiter, *, floor: int) -> bool:
        """Notify a program of the events after `floor`, a result of `last_event` just before; return
        False if too many wait.

        The program must look at the action after this call: an earlier look could miss an event.
        """
        with self._lock:
            of_person = self._waiting[waiter.person_id]
            if of_person >= WAITERS_OF_PERSON or self._waiting.total() >= WAITERS_OF_PROCESS:
                return False
            self._start(floor)
            self._waiting[waiter.person_id] += 1
            self._waiters.setdefault(waiter.action_id, set()).add(waiter)
            return True

    def remove_waiter(self, waiter: Waiter) -> None:
        with self._lock:
            others = self._waiters.get(waiter.action_id, set())
            if waiter in others:
                self._waiting -= Counter([waiter.person_id])
            others.discard(waiter)
            if not others:
                self._waiters.pop(waiter.action_id, None)

    def _start(self, floor: int) -> None:
        if self._thread is None:
            self._floor = floor
            thread = threading.Thread(target=self._follow, name="live", daemon=True)
            thread.start()
            self._thread = thread  # not before: without a thread the next page has to start one

    def _is_needed(self) -> bool:
        """Return False if nobody waits; then the thread ends."""
        with self._lock:
            if not self._listeners and not self._waiters:
                self._thread = None
            return self._thread is not None

    def _follow(self) -> None:
        pace, people = Pace(), People()
        feed: Feed | None = None
        news = True
        try:
            while self._is_needed():
                try:
                    feed = feed or Feed(self._floor)
                    for rows in feed.read():
                        news = True
                        self._notify(rows)
                    with self._lock:
                        listeners = list(self._listeners)
                    people.look(listeners, feed.newest)
                except (DatabaseError, InterfaceError):  # the pages poll meanwhile
                    log.exception("live_failed")
                    connection.close()
                news = pace.wait(news=news)
        finally:
            pace.close()
            connection.close()
            with self._lock:
                # After a failure the next page or program begins another one.
                if self._thread is threading.current_thread():
                    self._thread = None

    def _notify(self, rows: Sequence[Row]) -> None:
        """Notify of these events: the programs that wait for the actions, and each page once."""
        oldest: dict[UUID, int] = {}
        for pk, mailbox_id, _ in reversed(rows):
            if mailbox_id is not None:
                oldest[mailbox_id] = pk
        with self._lock:
            self._floor = max(self._floor, rows[-1][0])
            listeners = list(self._listeners)
            waiting = [
                waiter
                for pk, _, action_id in rows
                if action_id is not None
                for waiter in self._waiters.get(action_id, ())
                if pk > waiter.after
            ]
        for waiter in waiting:
            waiter.notify()
        for listener in listeners:
            if mine := oldest.keys() & listener.mailboxes:
                listener.notify(min(oldest[mailbox_id] for mailbox_id in mine))


class People:
    """The people who have an action open, and the memberships of those who follow."""

    def __init__(self) -> None:
        self._here: set[tuple[UUID, int, UUID]] = set()
        self._next_look = 0.0
        self._next_members = time.monotonic() + MEMBERS_SECONDS

    def look(self, listeners: list[Listener], event: int) -> None:
        """Notify if somebody has come or gone, and update the mailboxes; only if it is time."""
        now = time.monotonic()
        if not listeners:
            return
        if now >= self._next_members:
            self._next_members = now + MEMBERS_SECONDS
            _refresh(listeners)
        elif now >= self._next_look:
            self._next_look = now + PEOPLE_SECONDS
            self._notify_of_people(listeners, event)

    def _notify_of_people(self, listeners: list[Listener], event: int) -> None:
        fresh = Presence.objects.filter(seen_at__gt=timezone.now() - PRESENT)
        now = set(fresh.values_list("action_id", "person_id", "action__mailbox_id"))
        stirred = {mailbox_id for _, _, mailbox_id in now ^ self._here}
        self._here = now
        for listener in listeners:
            if stirred & listener.mailboxes:
                listener.notify(event)


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


HUB = Hub()
