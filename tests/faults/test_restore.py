"""An older copy of the database comes back: workers notice before they send, and nothing is sent
twice.
"""

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support.processes.installation import Installation
from tests.support.processes.person import request
from tests.support.processes.programs import manage, until
from tests.support.servers.sandbox import ADA, SandboxServer
from tests.support.servers.services import Postgres, find_postgres
from tests.support.servers.smtp import FaultySmtp

# test_restoring.py and test_restored.py have it in one process.
pytestmark = [pytest.mark.process, pytest.mark.long]


def subjects(smtp: FaultySmtp) -> list[str]:
    """Return the subjects that the mail server has accepted, sorted."""
    return sorted(str(message_from_bytes(accepted.content)["Subject"]) for accepted in smtp.ledger)


def copy_sqlite(home: Path, target: Path) -> None:
    """Copy the database while it is used, as `sqlite3 .backup` does."""
    with sqlite3.connect(home / "mailhub.sqlite3") as source, sqlite3.connect(target) as copy:
        source.backup(copy)


class Database(Protocol):
    """A database that a test copies while it is used, and restores to that state."""

    url: str

    def copy(self) -> None: ...

    def restore(self) -> None: ...


class Sqlite:
    def __init__(self, home: Path) -> None:
        self.url = ""
        self._home = home

    def copy(self) -> None:
        copy_sqlite(self._home, self._home / "copy")

    def restore(self) -> None:
        """Write the copy into the open database, as `sqlite3 .restore` does."""
        with (
            sqlite3.connect(self._home / "copy") as copy,
            sqlite3.connect(self._home / "mailhub.sqlite3", timeout=30) as target,
        ):
            copy.backup(target)


class Dumped:
    """PostgreSQL, by pg_dump; a restore replaces the tables under the open connections."""

    def __init__(self, server: Postgres, dump: Path) -> None:
        self.url = server.url
        self._dump = dump

    def copy(self) -> None:
        self._call("pg_dump", "--format=custom", f"--file={self._dump}", self.url)

    def restore(self) -> None:
        options = ("--clean", "--if-exists", "--single-transaction", "--no-owner")
        self._call("pg_restore", *options, f"--dbname={self.url}", str(self._dump))

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [find_postgres() / program, *arguments], capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("lost", "told"),
    [("", "The send journal knows mails"), ("send-journal.jsonl", "audit heads")],
)
def test_restored_backup_sends_nothing_twice(
    tmp_path: Path, smtp: FaultySmtp, sandbox: SandboxServer, lost: str, told: str
) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup.sqlite3"
    home.mkdir()
    with Installation(home, smtp, sandbox) as installation:
        installation.prepare()
        installation.serve()
        actions = {
            subject: installation.proposed(subject) for subject in ("one", "two", "three", "four")
        }
        for subject in ("one", "two", "three"):
            installation.approve(actions[subject])
        assert "Nothing differs." in installation.command("after_restore", "--dry-run")
        copy_sqlite(home, backup)  # "four" still waits in it
        installation.approve(actions["four"])
        installation.worker()
        for subject in actions:
            installation.reaches(actions[subject], "succeeded")
        until(lambda: len(sandbox.messages(ADA, "Sent")) >= 4)
        installation.stop()
        sent = subjects(smtp)

        for name in ("mailhub.sqlite3-wal", "mailhub.sqlite3-shm"):
            (home / name).unlink(missing_ok=True)
        shutil.copy(backup, home / "mailhub.sqlite3")
        if lost:
            (home / lost).unlink()
        installation.serve()
        worker = installation.worker()

        until(lambda: "everything_paused" in worker.log(), say=worker.log)
        ready = request(installation.url + "/statusz").json()
        assert "reconciled" in ready["missing"]
        assert told in ready["paused"]
        assert "Nothing is sent." in installation.page("/").text
        assert installation.action(actions["one"])["state"] == "approved"

        said = installation.command("after_restore", "--yes")

        assert "3 found in Sent, closed as sent" in said
        assert "1 found in Sent although nobody had approved it, waits for a person" in said
        assert installation.reaches(actions["one"], "succeeded")["receipt"]
        assert (
            "It may have been sent already"
            in installation.page(f"/actions/{actions['four']}/").text
        )
        later = installation.approved("five")
        installation.reaches(later, "succeeded")
        assert subjects(smtp) == sorted([*sent, "five"])


def after_restore(installation: Installation) -> str:
    """Run the command; it refuses until the leases of the copy have ended."""
    said: list[str] = []

    def run() -> bool:
        changes: dict[str, Any] = installation.changes
        done = manage(installation.home, "after_restore", "--yes", **changes)
        said.append(done.stdout)
        return done.returncode == 0

    until(run, say=lambda: "\n".join(said))
    return said[-1]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        yield Sqlite(tmp_path)
    else:
        with Postgres() as server:
            yield Dumped(server, tmp_path / "dump")


def test_copy_taken_under_load_sends_nothing_twice(
    tmp_path: Path, smtp: FaultySmtp, sandbox: SandboxServer, database: Database
) -> None:
    with Installation(tmp_path, smtp, sandbox, DATABASE_URL=database.url) as installation:
        installation.prepare()
        installation.serve()
        installation.worker()
        for n in range(30):
            installation.approved(f"mail {n}")
            if n == 15:
                database.copy()
        until(lambda: len(smtp.ledger) == 30)
        installation.stop()

        database.restore()
        installation.serve()
        worker = installation.worker()
        until(lambda: "everything_paused" in worker.log(), say=worker.log)
        after_restore(installation)
        installation.reaches(installation.approved("after it"), "succeeded")

    taken = subjects(smtp)
    assert len(taken) == len(set(taken)) == 31


def test_restore_under_a_running_worker_sends_nothing_twice(
    tmp_path: Path, smtp: FaultySmtp, sandbox: SandboxServer, database: Database
) -> None:
    """Restore the same copy twice; nothing else ends or begins."""
    with Installation(tmp_path, smtp, sandbox, DATABASE_URL=database.url) as installation:
        installation.prepare()
        installation.serve()
        worker = installation.worker()
        installation.reaches(installation.approved("one"), "succeeded")
        twice, waiting = installation.proposed("two"), installation.proposed("three")
        database.copy()
        for action_id in (twice, waiting):
            installation.approve(action_id)
            installation.reaches(action_id, "succeeded")
        until(lambda: len(sandbox.messages(ADA, "Sent")) == 3)

        for number in (1, 2):
            database.restore()
            until(
                lambda number=number: worker.log().count("everything_paused") == number,  # type: ignore[misc]
                say=worker.log,
            )
            assert "2 found in Sent although nobody had approved it" in after_restore(installation)
            assert "may_have_been_sent_at" in installation.action(waiting)
        installation.reaches(installation.approved("four"), "succeeded")

    assert subjects(smtp) == ["four", "one", "three", "two"]
