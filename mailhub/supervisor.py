"""Keeps the children of `manage.py run` alive and ends them all together."""

import ctypes
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from types import FrameType

import structlog

log = structlog.get_logger(__name__)

STOP_SECONDS = 12.0  # longer than a send under way usually takes, and than open streams are given
RESTART_SECONDS = 1.0
POLL_SECONDS = 0.2

PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """In the child: be told to end when the supervisor is gone, even when it was killed.

    Linux alone can do that.
    """
    if sys.platform == "linux":
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class Child:
    name: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = field(default=0.0)

    def start(self) -> None:
        self.started_at = time.monotonic()
        # While it loads, Ctrl-C would end it with a traceback: it inherits that SIGINT is ignored,
        # until it says itself what to do then. What is still loading is ended by us.
        ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            # In our process group: whoever ends the group, or presses Ctrl-C, ends all of it.
            # No thread has been started here, so what preexec_fn warns of cannot happen.
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent
            )
        finally:
            signal.signal(signal.SIGINT, ours)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Starts children in order, starts one again that dies, and ends them in the opposite order on
    a signal.
    """

    def __init__(self) -> None:
        self.children: list[Child] = []
        self.stopping = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)

    def start(self, name: str, command: list[str]) -> Child:
        child = Child(name=name, command=command)
        self.children.append(child)
        child.start()
        return child

    def watch(self) -> None:
        """Until a signal comes: a child that died is started again, at most once a second."""
        while not self.stopping:
            for child in self.children:
                if not child.running and time.monotonic() - child.started_at >= RESTART_SECONDS:
                    log.warning(
                        "child_died",
                        process=child.name,
                        exit_code=child.process and child.process.returncode,
                    )
                    child.start()
            time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """End every child, politely first; nothing of theirs stays behind."""
        for child in reversed(self.children):
            if child.process is not None and child.running:
                child.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for child in reversed(self.children):
            if child.process is None:
                continue
            try:
                child.process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True
