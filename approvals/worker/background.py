"""Work beside the sweep that waits for others: lookups in Sent, Sent copies, clean-up, deliveries.

A provider that does not answer delays only its own mailbox, and never the sweep that ends leases
and opens windows.
"""

import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any
from uuid import UUID

import structlog
from django.db import close_old_connections, connection

log = structlog.get_logger(__name__)

AT_ONCE = 4  # mailboxes, for each sort of work in each process
IDLE_SECONDS = 10.0  # then a thread without work ends, with its connection to the database
TURN_SECONDS = 30.0  # then the next sweep goes on, and other mailboxes have had their time

# Of work whose mailbox is named with its owner: slow servers of one person leave a thread to others.
OF_OWNERS: dict[str, Any] = {"share_of": itemgetter(0), "at_once_of_a_share": AT_ONCE - 1}

# The mailbox or webhook that a thread serves, and the action; the longest waiting first.
Waiting = Callable[[], Iterable[tuple[Hashable, UUID]]]


class Background:
    """One sort of work: `waiting` lists it, `act` does it for one action and records the end.

    At most AT_ONCE mailboxes are served at a time, each by one thread. A thread waits a while for
    the next mailbox, because a new connection to the database costs more than the work.
    `share_of` returns the owner of a mailbox, or of a webhook, if an owner may have few threads.
    """

    def __init__(
        self,
        name: str,
        waiting: Waiting,
        act: Callable[[UUID], None],
        *,
        share_of: Callable[[Any], Hashable] = lambda served: served,
        at_once_of_a_share: int = 1,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._name = name
        self._waiting = waiting
        self._act = act
        self._share_of = share_of
        self._at_once_of_a_share = at_once_of_a_share
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._busy: set[Hashable] = set()
        self._idle = 0
        self._begun: queue.SimpleQueue[tuple[Hashable, list[UUID]]] = queue.SimpleQueue()
        self._left: dict[Hashable, list[UUID]] = {}

    def start(self) -> None:
        """Begin with the waiting work and return at once; the threads go on with what is left."""
        found = self._by_mailbox()
        with self._lock:
            self._left = dict(found)
        for mailbox, actions in found.items():
            self.begin(mailbox, actions)

    def begin(self, mailbox: Hashable, actions: list[UUID]) -> bool:
        """Begin with these actions of a mailbox; return False if the next sweep has to."""
        with self._lock:
            if not self._is_free(mailbox) or len(self._busy) >= AT_ONCE:
                return False
            self._busy.add(mailbox)
            self._left.pop(mailbox, None)
            if self._idle:
                self._idle -= 1
                self._begun.put((mailbox, actions))
                return True
        try:
            threading.Thread(
                target=self._work, args=[(mailbox, actions)], name=self._name, daemon=True
            ).start()
        except Exception:  # the machine has no thread or memory left
            log.exception("chore_failed", process=self._name)
            with self._lock:
                self._busy.remove(mailbox)
            return False
        return True

    def finish(self) -> None:
        """Do the waiting work and return when it is done.

        A caller that will not run another sweep uses it.
        """
        found = self._by_mailbox()
        if len(found) == 1:  # a thread would not help
            for action in next(iter(found.values())):
                self._run(action)
            return
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix=self._name) as pool:
            list(pool.map(self._do_all, found.values()))

    def _by_mailbox(self) -> dict[Hashable, list[UUID]]:
        found: dict[Hashable, list[UUID]] = {}
        for mailbox, action in self._waiting():
            found.setdefault(mailbox, []).append(action)
        return found

    def _do_all(self, actions: list[UUID]) -> None:
        try:
            for action in actions:
                self._run(action)
        finally:
            connection.close()

    def _work(self, begun: tuple[Hashable, list[UUID]] | None) -> None:
        try:
            while begun is not None:
                mailbox, actions = begun
                try:
                    self._take_turn(actions)
                except Exception:  # the thread must go on: it is counted as one that waits
                    log.exception("chore_failed", process=self._name)
                finally:
                    self._end(mailbox)
                begun = self._wait()
        finally:
            connection.close()

    def _take_turn(self, actions: list[UUID]) -> None:
        close_old_connections()
        ends_at = time.monotonic() + TURN_SECONDS
        for action in actions:
            if time.monotonic() > ends_at:
                break
            self._run(action)

    def _end(self, done: Hashable) -> None:
        """Go on with a mailbox that no thread has served since the last sweep, or be idle."""
        with self._lock:
            self._busy.remove(done)
            mailbox = next(filter(self._is_free, self._left), None)
            if mailbox is None:
                self._idle += 1
            else:
                self._busy.add(mailbox)
                self._begun.put((mailbox, self._left.pop(mailbox)))

    def _is_free(self, mailbox: Hashable) -> bool:
        shares = [self._share_of(each) for each in self._busy]
        has_room = shares.count(self._share_of(mailbox)) < self._at_once_of_a_share
        return has_room and mailbox not in self._busy

    def _wait(self) -> tuple[Hashable, list[UUID]] | None:
        """Return the next mailbox with its actions; None if there was none for a while."""
        while True:
            try:
                return self._begun.get(timeout=self._idle_seconds)
            except queue.Empty:
                with self._lock:
                    if self._begun.empty():  # else it came at the last moment
                        self._idle -= 1
                        return None

    def _run(self, action: UUID) -> None:
        try:
            self._act(action)
        except Exception:  # a failure of one action must not stop the others
            log.exception("chore_failed", process=self._name, action=str(action))
            close_old_connections()
