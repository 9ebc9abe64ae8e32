"""One process of the tree under proof, and a write to its pipe."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.processes.programs import Program, session_of


class Process(Program):
    """One process of the tree under proof."""

    def __init__(self, home: Path, command: Sequence[str], **changes: object) -> None:
        super().__init__(home, **changes)
        self._command = command
        self.started_at = time.monotonic()

    def command(self) -> Sequence[str]:
        return self._command

    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal_all(self, number: signal.Signals, *, but_the_leader: bool = False) -> None:
        """Signal everything in its session, including its forks."""
        for pid in session_of(self.pid):
            if not (but_the_leader and pid == self.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)


def write_at_once(fifo: Path, content: bytes) -> None:
    """Write without waiting. Raise OSError if nobody listens, or the pipe is full."""
    pipe = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(pipe, content)
    finally:
        os.close(pipe)
