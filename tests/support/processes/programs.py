"""Programs of mailhub as processes in a home of their own: started, waited for, and ended without a
trace.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from django.conf import settings
from django.db import connection

from tests.support.processes.proc import proc

PROJECT = Path(__file__).resolve().parents[3]
MANAGE = [sys.executable, str(PROJECT / "manage.py")]
SECONDS = 120.0  # limits every wait; generous, because a busy machine is no error
END_SECONDS = 15.0  # the maximum time of a Ctrl-C
POLL_SECONDS = 0.03
# Hands over a socket as systemd does: as number 3, with the id of the process.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(sys.argv[2], sys.argv[2:])
"""
T = TypeVar("T")
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "COVERAGE_PROCESS_START")


def until(
    condition: Callable[[], T], *, seconds: float = SECONDS, say: Callable[[], str] = lambda: ""
) -> T:
    """Poll until the condition holds, and return what it returned."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s. {say()}"
        time.sleep(POLL_SECONDS)
    return found


def environment(home: Path, changes: Mapping[str, object]) -> dict[str, str]:
    """Return the environment of a mailhub process: the variables of a shell, without the test run's
    own settings.
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return (
        kept | {"MAILHUB_HOME": str(home)} | {name: str(value) for name, value in changes.items()}
    )


def this_test(*, database_port: int | None = None) -> dict[str, object]:
    """Return settings with which another process uses the test's database and reads the test's
    data.
    """
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        url = f"sqlite:///{database['NAME']}"
    else:
        url = f"postgres://{database['USER']}@{database['HOST']}:{database_port or database['PORT']}/{database['NAME']}"
    return {
        "DATABASE_URL": url,
        "SECRET_KEY": settings.SECRET_KEY,
        "MAILHUB_ENCRYPTION_KEYS": ",".join(settings.MAILHUB_ENCRYPTION_KEYS),
        "MAILHUB_LOOPBACK_SERVERS": ",".join(_mail_servers()),
    }


def _mail_servers() -> Iterator[str]:
    # The fault runs import this module without Django's apps.
    from accounts.connect.imap import ImapAccess
    from accounts.infra import credentials
    from accounts.models import Mailbox

    for mailbox in Mailbox.objects.filter(provider=Mailbox.Provider.IMAP):
        secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)
        access = ImapAccess.from_secrets(secrets)
        yield from (f"{server.host}:{server.port}" for server in (access.imap, access.smtp))


def manage(
    home: Path, *arguments: str, stdin: str = "", **changes: object
) -> subprocess.CompletedProcess[str]:
    """Run one command on a home to its end; not for `run`, because it could not end its
    children.
    """
    return run([*MANAGE, *arguments], home, changes, stdin)


def run(
    command: Sequence[str], home: Path, changes: Mapping[str, object], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command, of another release for example, as `manage` does."""
    return subprocess.run(
        command,
        env=environment(home, changes),
        cwd=home,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def session_of(leader: int) -> dict[int, list[str]]:
    """Return the living processes of a session that we began, by pid, with their command lines."""
    found = {}
    for entry in proc().iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):  # it ended meanwhile
            # state, ppid, pgrp, session: they follow the name, which may contain anything but ends
            # at the last bracket
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode().split("\0")
    return found


class Program:
    """A process in its own session, with its output in files of the home."""

    program: Sequence[str] = MANAGE  # the manage.py of another release, for example

    def __init__(self, home: Path, *arguments: str, **changes: object) -> None:
        self.home = home
        self._arguments = arguments
        self._changes = changes
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def command(self) -> Sequence[str]:
        return [*self.program, *self._arguments]

    def start(self) -> None:
        with (self.home / "stdout").open("ab") as out, (self.home / "stderr").open("ab") as err:
            self.process = subprocess.Popen(
                self.command(),
                env=environment(self.home, self._changes),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def stdout(self) -> str:
        return (self.home / "stdout").read_text()

    def log(self) -> str:
        return (self.home / "stderr").read_text()

    def wait(self, seconds: float = SECONDS) -> int:
        """Wait for its end, assert that none of its processes is left, and return its exit code."""
        assert self.process is not None
        code = self.process.wait(seconds)
        until(
            lambda: not session_of(self.pid),
            seconds=2,
            say=lambda: f"left behind: {session_of(self.pid)}",
        )
        return code

    def kill(self) -> None:
        """Kill everything that still runs, whatever the result of the test."""
        if self.process is not None:
            for pid in session_of(self.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait(SECONDS)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.kill()


class WorkerProcess(Program):
    """Only `manage.py worker`."""

    def __init__(self, home: Path, **changes: object) -> None:
        super().__init__(home, "worker", **changes)

    def kill_9(self) -> None:
        """Die at once, by SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(SECONDS)

    def end(self) -> int:
        """End it by SIGTERM, and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.wait()

    def waits_for_signal(self, number: signal.Signals) -> bool:
        """Return True if a signal was sent and is still pending."""
        status = proc(self.pid, "status").read_text()
        pending = int(re.findall(r"^ShdPnd:\s+([0-9a-f]+)$", status, re.MULTILINE)[0], 16)
        return bool(pending & (1 << (number - 1)))
