"""The supervisor of `manage.py run`: restarts its children, and ends all of them together."""

import ctypes
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from types import FrameType

import structlog

log = structlog.get_logger(__name__)

STOP_SECONDS = 12.0  # longer than a running send usually takes, and than the limit for open streams
RESTART_SECONDS = 1.0
POLL_SECONDS = 0.2

PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """Make the kernel send SIGTERM to this child when the supervisor ends, even if it was killed.

    Only Linux supports that.
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
        # A child that is still loading would end with a traceback at Ctrl-C. So it inherits an
        # ignored SIGINT until it sets its own handler, and `Supervisor.end` terminates it.
        ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            # In our process group, so that Ctrl-C or a signal to the group ends all children.
            # No thread has been started here, so the deadlock of preexec_fn cannot happen.
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent
            )
        finally:
            signal.signal(signal.SIGINT, ours)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """A starter of children in order: it restarts a child that dies, and ends all in reverse order
    on a signal.
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
        """Restart children that died, each at most once a second, until a signal arrives."""
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
        """Terminate every child, and kill those that do not end in time."""
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
