"""A bounded number of limited processes that keep running, each with one job at a time."""

import atexit
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic_core import PydanticSerializationError

from accounts.access.provider_calls import person_of_call
from accounts.infra.database import give_back_connection
from accounts.infra.problems import Problem
from tools.mail.parsers.child import HEAD, NO_MEMORY, SAID, WAITING_SECONDS, arguments_of, result_of

T = TypeVar("T")
Reason = Literal["slow", "broken", "busy"]
CHILD = Path(__file__).with_name("child.py")
WAIT_SECONDS = 10.0  # for a free process
START_SECONDS = 30.0  # for a new process, on a busy machine
END_SECONDS = 2.0
MAX_ANSWER = 256 * 1024**2
REMEMBERED = 1_000
REMEMBERED_SECONDS = 600.0  # the cause may have been a busy machine
RETRY_SECONDS = 5


class Unparsable(Problem):
    """A failure to read content within the limits.

    `reason` is slow (time or memory ran out), broken (the parser failed), or busy (no process was
    free in time).
    """

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        if reason == "busy":
            super().__init__(
                "transient", "Too much content is being read right now.", retry_after=RETRY_SECONDS
            )
        else:
            super().__init__(
                "invalid_input",
                "The content is too deeply nested, too large or too damaged to be read.",
            )

    def raise_if_busy(self) -> None:
        """Raise this again if no process read the content: then a retry helps, and no replacement
        is needed.
        """
        if self.reason == "busy":
            raise self


class _Ended(Exception):
    """The process had ended before it took the job."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a job: seconds of processor time, bytes of memory, and the number of
    processes, in all and for one person.
    """

    seconds: float
    memory: int
    processes: int
    of_person: int = 2


@dataclass(eq=False, frozen=True, kw_only=True)
class _Waiting:
    """A job that waits for its turn."""

    person: Hashable


class Turns:
    """The order of the jobs: the person with the fewest running jobs goes first, then the job that
    waits longest. A job without a person counts for itself.
    """

    def __init__(self, at_once: int, *, of_person: int) -> None:
        self._free, self._of_person = at_once, of_person
        self._changed = threading.Condition()
        self._running = Counter[Hashable]()
        self._waiting: list[_Waiting] = []

    @contextmanager
    def take(self, person: Hashable, *, seconds: float | None = None) -> Iterator[None]:
        """Hold a turn during the block; raise Unparsable if none was free in time."""
        seconds = WAIT_SECONDS if seconds is None else seconds
        mine = _Waiting(person=object() if person is None else person)
        with self._changed:
            self._waiting.append(mine)
            try:
                if not self._changed.wait_for(lambda: self._next() is mine, seconds):
                    raise Unparsable("busy")
                self._count(mine, 1)
            finally:
                self._waiting.remove(mine)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._count(mine, -1)
                self._changed.notify_all()

    def _next(self) -> _Waiting | None:
        if not self._free:
            return None
        able = [each for each in self._waiting if self._running[each.person] < self._of_person]
        return min(able, key=lambda each: self._running[each.person], default=None)

    def _count(self, job: _Waiting, more: int) -> None:
        self._free -= more
        self._running[job.person] += more
        if not self._running[job.person]:
            del self._running[job.person]


class Pool:
    """A pool of processes that start on demand, and end when they are idle or this process ends."""

    def __init__(self, limits: Limits, *, preload: tuple[str, ...] = ()) -> None:
        self._limits = limits
        self._preload = preload
        self._prepare()
        atexit.register(self.close)
        # A forked process must not use the processes of its parent, because both would read the
        # same answers.
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def _prepare(self) -> None:
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._lock = threading.Lock()
        self._turns = Turns(self._limits.processes, of_person=self._limits.of_person)
        self._refused: OrderedDict[bytes, tuple[Reason, float]] = OrderedDict()

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a module-level function in one of the processes.

        It takes and returns plain data or dataclasses. Raises Unparsable. A job that failed is not
        repeated for ten minutes.
        """
        # Answers are checked against the function's types, because a process that read a foreign
        # file is untrusted.
        try:
            given = arguments_of(function).dump_json(arguments, warnings="error")
        except PydanticSerializationError:
            raise Unparsable("broken") from None
        job = f"{function.__module__}:{function.__qualname__}\n".encode() + given
        mark = sha256(job).digest()
        reason, until = self._refused.get(mark, (None, 0.0))
        if reason is not None and time.monotonic() < until:
            raise Unparsable(reason)
        give_back_connection()
        with self._turns.take(person_of_call()):
            try:
                answer = self._answer(job)
            except Unparsable as error:
                if error.reason != "busy":
                    self._remember(mark, error.reason)
                raise
        try:
            return result_of(function).validate_json(answer)[0]  # type: ignore[no-any-return]
        except ValueError:
            raise Unparsable("broken") from None

    def close(self) -> None:
        """End all processes; a later job starts new ones."""
        with self._lock:
            children, self._all, self._idle = self._all, set(), []
        for child in children:
            child.end()

    @property
    def pids(self) -> tuple[int, ...]:
        with self._lock:
            return tuple(child.pid for child in self._all)

    def _answer(self, job: bytes) -> bytes:
        for _ in range(self._limits.processes + 1):
            child = self._take()
            try:
                sort, answer = child.ask(job)
            except _Ended:
                self._drop(child)  # it was idle for too long, and the next one may have been too
                continue
            except BaseException:
                self._drop(child)
                self._replace()
                raise
            self._give(child)
            if sort != SAID:
                raise Unparsable("slow" if sort == NO_MEMORY else "broken")
            return answer
        raise Unparsable("busy")

    def _take(self) -> "_Child":
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._start()

    def _give(self, child: "_Child") -> None:
        with self._lock:
            self._idle.append(child)

    def _replace(self) -> None:
        """Start a process for a later reader. Processes that are ready are used before it."""
        child = self._start()
        with self._lock:
            self._idle.insert(0, child)

    def _start(self) -> "_Child":
        child = _Child(self._limits, self._preload)
        with self._lock:
            self._all.add(child)
        return child

    def _drop(self, child: "_Child") -> None:
        with self._lock:
            self._all.discard(child)
        child.end()

    def _remember(self, mark: bytes, reason: Reason) -> None:
        with self._lock:
            self._refused[mark] = (reason, time.monotonic() + REMEMBERED_SECONDS)
            self._refused.move_to_end(mark)
            while len(self._refused) > REMEMBERED:
                self._refused.popitem(last=False)

    def _leave_to_parent(self) -> None:
        for child in self._all:
            child.disown()
        self._prepare()


class _Child:
    """One process, and the socket that is its standard input."""

    def __init__(self, limits: Limits, preload: tuple[str, ...]) -> None:
        self._seconds = limits.seconds
        self._is_ready = False
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-X",
                    "utf8",
                    str(CHILD),
                    str(limits.memory),
                    str(limits.seconds),
                    *preload,
                ],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, job: bytes) -> tuple[bytes, bytes]:
        """Return how the job ended, and its answer.

        Raises Unparsable if the process must be replaced, and _Ended if it had ended before the
        job.
        """
        try:
            if not self._is_ready:
                self._receive(1, time.monotonic() + START_SECONDS)
                self._is_ready = True
            deadline = time.monotonic() + self._seconds + WAITING_SECONDS
            self._socket.settimeout(self._seconds + WAITING_SECONDS)
            self._socket.sendall(HEAD.pack(b"?", len(job)) + job)
            sort, size = HEAD.unpack(self._receive(HEAD.size, deadline))
            if size > MAX_ANSWER:
                raise Unparsable("slow")
            return bytes(sort), self._receive(size, deadline)
        except TimeoutError:
            raise Unparsable("slow" if self._is_ready else "busy") from None
        except OSError:
            if self._has_ended_well():
                raise _Ended from None
            raise Unparsable(
                "slow" if self._is_ready else "busy"
            ) from None  # killed by a limit, or crashed

    def end(self) -> None:
        """End the process now. It has no data that could be lost."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def disown(self) -> None:
        """Forget the process in a fork: it belongs to the parent."""
        self._socket.close()
        self._process.returncode = 0

    def _receive(self, size: int, deadline: float) -> bytes:
        """Return `size` bytes; raise OSError if the process ends first, TimeoutError at the
        deadline.
        """
        content = bytearray(size)
        reached = 0
        while reached < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            got = self._socket.recv_into(memoryview(content)[reached:])
            if not got:
                raise ConnectionResetError
            reached += got
        return bytes(content)

    def _has_ended_well(self) -> bool:
        try:
            return self._process.wait(END_SECONDS) == 0
        except subprocess.TimeoutExpired:
            return False
