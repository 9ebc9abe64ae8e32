"""A PostgreSQL server that keeps its commits, can lose its power, and can have a wrong clock."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from tests.support.power.clock import Clock, preload
from tests.support.power.disk import Disk
from tests.support.processes.proc import proc
from tests.support.servers.services import Postgres, find_postgres

END_SECONDS = 20.0
SEGMENT_MEGABYTES = 1  # of the write-ahead log: copied at each commit while a disk is recorded


class DurablePostgres(Postgres):
    """A server that syncs as in production.

    `recorded`: a disk notes each sync, and `cut_off` loses the rest. `clock` sets its wall clock.
    """

    changes: ClassVar[dict[str, str]] = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "recovery_init_sync_method": "syncfs",  # one call; the default is one call for each file
        "checkpoint_timeout": "30s",  # so that a power cut meets every stage between two of them
    }

    def __init__(self, *, recorded: bool = False) -> None:
        super().__init__()
        self.clock = Clock(self.folder / "clock", "database")
        self._recorded = recorded
        self._disk: Disk | None = None

    def prepare(self) -> None:
        super().prepare()
        if self._recorded:
            self._disk = Disk(self.folder / "data", self.folder, locks=False)
            self._disk.begin()
        self._give_away()  # the library of the clock too: what cannot be read is not preloaded

    def layout(self) -> list[str]:
        return [f"--wal-segsize={SEGMENT_MEGABYTES}"] if self._recorded else []

    def command(self) -> Sequence[str | Path]:
        told = preload(self.clock.environment, self._disk.environment if self._disk else {})
        return ["env", *(f"{name}={value}" for name, value in told.items()), *super().command()]

    def crash(self) -> None:
        """End without a shutdown; the next start has to recover."""
        self.stop_signal, usual = signal.SIGQUIT, self.stop_signal  # type: ignore[misc]
        try:
            self.stop()
        finally:
            self.stop_signal = usual  # type: ignore[misc]

    def cut_off(self) -> None:
        """Lose the power: kill every process at once, and keep only synced data.

        `start` brings it back.
        """
        assert self._disk is not None
        process, self._process = self._process, None
        assert process is not None
        family = _stop_all(process.pid)
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(END_SECONDS)
        deadline = time.monotonic() + END_SECONDS
        while any(_lives(pid) for pid in family):
            assert time.monotonic() < deadline, "a process of PostgreSQL outlived the power cut"
            time.sleep(0.01)
        self._disk.cut()
        self._give_away()

    def dump(self, url: str) -> None:
        """Copy a database while it is used. A later copy replaces this one."""
        self.run(
            [find_postgres() / "pg_dump", "--format=custom", f"--file={self.folder}/copy", url]
        )

    def restore(self, name: str) -> str:
        """Create a database from the copy, and return its address."""
        url = self.create_database(name)
        self.run(
            [find_postgres() / "pg_restore", "--no-owner", f"--dbname={url}", self.folder / "copy"]
        )
        return url

    def _give_away(self) -> None:
        """Give the server's own account the whole folder."""
        if self.account:
            owner = f"{self.account.pw_uid}:{self.account.pw_gid}"
            subprocess.run(["chown", "-R", owner, self.folder], check=True, timeout=60)


def _stop_all(leader: int) -> list[int]:
    """Halt a process and all its descendants, and return their pids.

    Its backends lead process groups of their own.
    """
    family = [leader]
    for (
        pid
    ) in family:  # grows meanwhile: a halted process cannot fork, so the list becomes complete
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            _until_halted(pid)
        family += _children(pid)
    return family


def _until_halted(pid: int) -> None:
    deadline = time.monotonic() + END_SECONDS
    while _state(pid) not in ("T", "Z", "X", ""):
        assert time.monotonic() < deadline, f"process {pid} does not halt"
        time.sleep(0.001)


def _children(parent: int) -> list[int]:
    found = []
    for entry in proc().iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it ended meanwhile
                _, ppid = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(ppid) == parent:
                    found.append(int(entry.name))
    return found


def _state(pid: int) -> str:
    try:
        return proc(pid, "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _lives(pid: int) -> bool:
    return _state(pid) not in ("Z", "X", "")
