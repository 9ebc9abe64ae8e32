"""Work beside the sweep that waits for providers: lookups in Sent, Sent copies, clean-up.

A provider that does not answer delays only its own mailbox, and never the sweep that ends leases
and opens windows.
"""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import structlog
from django.db import close_old_connections, connection

log = structlog.get_logger(__name__)

AT_ONCE = 4  # mailboxes, for each sort of work in each process
TURN_SECONDS = 30.0  # then the next sweep goes on, and other mailboxes have had their time

Waiting = Callable[[], Iterable[tuple[UUID, UUID]]]  # mailbox and action, the longest waiting first


class Background:
    """One sort of work: `waiting` lists it, `act` does it for one action and records the end.

    At most AT_ONCE mailboxes are served at a time, each by one thread.
    """

    def __init__(self, name: str, waiting: Waiting, act: Callable[[UUID], None]) -> None:
        self._name = name
        self._waiting = waiting
        self._act = act
        self._lock = threading.Lock()
        self._busy: dict[UUID, threading.Thread] = {}
        self._left: dict[UUID, list[UUID]] = {}

    def start(self) -> None:
        """Begin with the waiting work and return at once; the threads go on with what is left."""
        found = self._by_mailbox()
        with self._lock:
            self._left = dict(found)
        for mailbox, actions in found.items():
            self.begin(mailbox, actions)

    def begin(self, mailbox: UUID, actions: list[UUID]) -> bool:
        """Begin with these actions of a mailbox; return False if the next sweep has to."""
        with self._lock:
            if mailbox in self._busy or len(self._busy) >= AT_ONCE:
                return False
            thread = threading.Thread(
                target=self._work, args=(mailbox, actions), name=self._name, daemon=True
            )
            self._busy[mailbox] = thread
            self._left.pop(mailbox, None)
        thread.start()
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

    def _by_mailbox(self) -> dict[UUID, list[UUID]]:
        found: dict[UUID, list[UUID]] = {}
        for mailbox, action in self._waiting():
            found.setdefault(mailbox, []).append(action)
        return found

    def _do_all(self, actions: list[UUID]) -> None:
        try:
            for action in actions:
                self._run(action)
        finally:
            connection.close()

    def _work(self, mailbox: UUID, actions: list[UUID]) -> None:
        following: tuple[UUID, list[UUID]] | None = (mailbox, actions)
        try:
            close_old_connections()
            while following is not None:
                mailbox, actions = following
                ends_at = time.monotonic() + TURN_SECONDS
                for action in actions:
                    if time.monotonic() > ends_at:
                        break
                    self._run(action)
                following = self._take_next(mailbox)
        finally:
            connection.close()
            with self._lock:
                del self._busy[mailbox]

    def _take_next(self, done: UUID) -> tuple[UUID, list[UUID]] | None:
        """Take a mailbox that no thread has served since the last sweep; None if none is left."""
        with self._lock:
            mailbox = next((each for each in self._left if each not in self._busy), None)
            if mailbox is None:
                return None
            del self._busy[done]
            self._busy[mailbox] = threading.current_thread()
            return mailbox, self._left.pop(mailbox)

    def _run(self, action: UUID) -> None:
        try:
            self._act(action)
        except Exception:  # a failure of one action must not stop the others
            log.exception("chore_failed", process=self._name, action=str(action))
