"""The default queue: a resident worker that is rung for, and finds in the table what nobody rang for."""

import queue
import signal
import threading
import time
from types import FrameType
from uuid import UUID

import structlog
from django.db import Error as DatabaseError
from django.db import connection

from approvals import maintenance
from approvals.queues import bell
from approvals.queues.sweeper import SWEEP_SECONDS, Sweeper
from approvals.queues.wakeup import Wakeup
from approvals.queues.workers import carry_out, prepare, worker_name

log = structlog.get_logger(__name__)

UNHEARD_SECONDS = 1.0  # while the bell cannot be heard, the table is asked instead


class DatabaseQueue:
    """Rings the bell; its server is the database itself."""

    def ring(self, action_id: UUID) -> None:
        bell.ring(action_id)

    def answers(self) -> bool:
        return True


class Worker:
    """Three parts: this thread listens and hands out, `threads` others carry out, one sweeps and keeps the time.

    So a send that takes its time delays no other, and neither the sweeps nor the signs of life.
    """

    def __init__(self, *, threads: int = 1) -> None:
        prepare()
        self.name = worker_name()
        self._stopping = False
        self._wakeup = Wakeup()
        self._bell = bell.listen()
        self._sweeper = Sweeper(worker=self.name)
        self._found: queue.SimpleQueue[UUID | None] = queue.SimpleQueue()
        self._in_hand: set[UUID] = set()  # found and not done: handed out, or waiting in _found
        self._more = True  # the table may hold something that nobody rang for
        self._next_find = 0.0
        self._lock = threading.Lock()
        self._carriers = [threading.Thread(target=self._carry, name=f"carrier-{n}") for n in range(threads)]

    def run(self) -> None:
        """Work until SIGTERM or SIGINT; sends that are under way are finished first."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        sweeping = threading.Thread(target=self._sweeper.run, name="sweeper")
        for thread in (sweeping, *self._carriers):
            thread.start()
        log.info("worker_started", worker=self.name, count=len(self._carriers))
        try:
            while not self._stopping:
                self._listen()
        finally:
            self._stopping = True
            log.info("worker_ending", worker=self.name, count=len(self._in_hand))
            for _ in self._carriers:
                self._found.put(None)
            for carrier in self._carriers:
                carrier.join()
            self._sweeper.stop()
            sweeping.join()
            self._bell.close()
            connection.close()
        log.info("worker_stopped", worker=self.name)

    def _listen(self) -> None:
        """Wait for the bell, for a carrier that has nothing to do, or for the time to look into the table."""
        heard = self._bell.fileno()
        if heard is None:
            self._more = True  # what rang was not heard
            if not self._bell.mend():
                self._wakeup.wait(UNHEARD_SECONDS)
        elif (free := self._free()) <= 0:
            self._wakeup.wait(SWEEP_SECONDS)  # the bell is left to workers that can take more
        elif self._wakeup.wait(0 if self._more else self._next_find - time.monotonic(), heard):
            self._hand_out(self._bell.answered(free))
        if self._more or time.monotonic() >= self._next_find:
            self._find()

    def _find(self) -> None:
        """Hand out what is due, if there is anybody to take it."""
        if self._free() <= 0:
            return
        self._next_find = time.monotonic() + SWEEP_SECONDS
        self._more = False
        try:
            due = maintenance.due()
        except DatabaseError:  # the sweeper tries again, and rings
            log.exception("database_unavailable", worker=self.name)
            connection.close()
            return
        self._hand_out(due)
        if len(due) >= maintenance.BATCH:
            self._more = True

    def _free(self) -> int:
        with self._lock:
            return len(self._carriers) - len(self._in_hand)

    def _hand_out(self, action_ids: list[UUID]) -> None:
        with self._lock:
            new = [action_id for action_id in dict.fromkeys(action_ids) if action_id not in self._in_hand]
            self._in_hand.update(new)
        for action_id in new:
            self._found.put(action_id)

    def _carry(self) -> None:
        """The life of a carrier, on a database connection of its own."""
        while (action_id := self._found.get()) is not None and not self._stopping:
            # The copy in Sent can wait while others wait to be sent: the sweeper makes up for it.
            done = carry_out(action_id, settle=self._found.empty())
            with self._lock:
                self._in_hand.discard(action_id)
                free = len(self._in_hand) < len(self._carriers)
            if not done:
                self._sweeper.look_again()  # it may be due later, and nobody else keeps the time
            if free:
                self._wakeup.wake()
        connection.close()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        self._wakeup.wake()
