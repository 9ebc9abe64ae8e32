"""The default queue: a resident worker that is notified, and finds all other work in the table."""

import queue
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

import structlog
from django.db import Error as DatabaseError
from django.db import connection

from approvals.queues import channel
from approvals.queues.slots import THREADS, Slots
from approvals.queues.sweeper import SWEEP_SECONDS, Sweeper
from approvals.queues.wakeup import Wakeup
from approvals.queues.workers import carry_out, prepare, worker_name
from approvals.worker import dispatch, maintenance
from approvals.worker.dispatch import Due

log = structlog.get_logger(__name__)

FULL_SECONDS = 1.0  # how soon the worker notices that a send has become slow, which frees its slot
UNHEARD_SECONDS = 1.0  # without notifications, the table is queried this often


class Worker:
    """A worker of three parts: this thread listens and hands out, others carry out, one sweeps.

    So a slow send delays neither other sends nor the sweeps and the signs of life. The worker never
    hands out more actions than there are free slots; `Slots` says who gets one.
    """

    def __init__(self, *, threads: int = THREADS) -> None:
        prepare()
        self.name = worker_name()
        self._stopping = False
        self._wakeup = Wakeup()
        self._channel = channel.listen()
        self._sweeper = Sweeper(worker=self.name)
        self._slots = Slots(threads)
        self._handed_out: queue.SimpleQueue[Due | None] = queue.SimpleQueue()
        self._carriers: list[threading.Thread] = []  # as many as were ever needed at once
        self._more = True  # the table may hold work without a notification
        self._next_find = 0.0

    def run(self) -> None:
        """Work until SIGTERM or SIGINT; sends that are under way are finished first."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        sweeping = threading.Thread(target=self._sweeper.run, name="sweeper")
        sweeping.start()
        log.info("worker_started", worker=self.name, count=self._slots.threads)
        try:
            while not self._stopping:
                self._listen()
        finally:
            self._stopping = True
            log.info("worker_ending", worker=self.name, count=self._slots.taken)
            for _ in self._carriers:
                self._handed_out.put(None)
            for carrier in self._carriers:
                carrier.join()
            self._sweeper.stop()
            sweeping.join()
            self._channel.close()
            connection.close()
        log.info("worker_stopped", worker=self.name)

    def _listen(self) -> None:
        """Wait for a notification, for a free slot, or for the time to query the table."""
        heard = self._channel.fileno()
        if heard is None:
            self._more = True  # notifications may have been lost
            if not self._channel.reconnect():
                self._wakeup.wait(UNHEARD_SECONDS)
        elif (free := self._slots.free()) <= 0:
            self._wakeup.wait(FULL_SECONDS)  # notifications are left to workers that can take more
        elif self._wakeup.wait(self._patience(), heard):
            self._hand_out(lambda: dispatch.load_due(list(dict.fromkeys(self._channel.read(free)))))
        self._start(self._slots.take())
        if (self._more or time.monotonic() >= self._next_find) and self._slots.free() > 0:
            self._next_find = time.monotonic() + SWEEP_SECONDS
            self._more = False
            self._hand_out(dispatch.heads)

    def _patience(self) -> float:
        if self._more:
            return 0.0
        next_find = self._next_find - time.monotonic()
        return min(next_find, FULL_SECONDS) if self._slots.some_wait else next_find

    def _hand_out(self, find: Callable[[], list[Due]]) -> None:
        try:
            self._start(self._slots.take(find()))
        except DatabaseError:  # the sweeper retries, and notifies
            log.exception("database_unavailable", worker=self.name)
            connection.close()

    def _start(self, taken: list[Due]) -> None:
        for due in taken:
            self._handed_out.put(due)
        while len(self._carriers) < self._slots.taken:
            carrier = threading.Thread(target=self._carry, name=f"carrier-{len(self._carriers)}")
            try:
                carrier.start()
            except Exception:  # the machine has no thread or memory left; the next round has to
                log.exception("carrier_not_started", worker=self.name)
                return
            self._carriers.append(carrier)

    def _carry(self) -> None:
        while (due := self._handed_out.get()) is not None and not self._stopping:
            try:
                if carry_out(due.action, settle=False):
                    # Else the sweeper does.
                    maintenance.SENT_COPIES.begin((due.owner, due.mailbox), [due.action])
                else:
                    # it may be due later, and only the sweeper keeps the time
                    self._sweeper.notify_approved()
            finally:
                self._slots.give_back(due)
                self._wakeup.wake()
        connection.close()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        self._wakeup.wake()
