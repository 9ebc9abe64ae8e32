"""A power cut right after the mail server has taken a mail: only what was synced is left, and nothing is sent again."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from tests.installation import Installation, cut_off
from tests.mailserver import SandboxServer
from tests.power.disk import Disk
from tests.services import Postgres
from tests.smtpserver import FaultySmtp

pytestmark = pytest.mark.process


class SyncingPostgres(Postgres):
    """One that syncs as in production. Once it has a disk of ours, it tells it what it has synced."""

    changes: ClassVar[dict[str, str]] = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
    disk: Disk | None = None

    def command(self) -> Sequence[str | Path]:
        told = self.disk.environment if self.disk else {}
        return ["env", *(f"{name}={value}" for name, value in told.items()), *super().command()]

    def cut_off(self) -> None:
        """Lose the power: every process ends at once, and only what was synced is left."""
        assert self.disk is not None
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.disk.cut()
        self.disk = None
        self.give_away()

    def give_away(self) -> None:
        """Let the server's own account have all of the folder."""
        if self.account:
            owner = f"{self.account.pw_uid}:{self.account.pw_gid}"
            subprocess.run(["chown", "-R", owner, self.folder], check=True, timeout=60)


@pytest.fixture
def smtp() -> Iterator[FaultySmtp]:
    with FaultySmtp() as server:
        yield server


def test_sqlite_does_not_forget_a_mail_that_was_sent(tmp_path: Path, smtp: FaultySmtp, sandbox: SandboxServer) -> None:
    home = tmp_path / "home"
    home.mkdir()
    disk = Disk(home, tmp_path)
    with Installation(home, smtp, sandbox) as installation:
        installation.prepare()
        installation.serve()
        action_id = installation.approved("Hello")
        installation.stop()
        disk.begin()
        silent = smtp.silence(at="accepted")
        worker = installation.worker(**disk.environment)
        silent.wait()
        cut_off(worker)
        disk.cut()
        silent.release()
        assert len(smtp.ledger) == 1

        installation.serve()
        installation.worker()

        assert installation.reaches(action_id, "unknown", "succeeded", "failed")["state"] == "unknown"
        assert len(smtp.ledger) == 1


@pytest.mark.long
def test_postgresql_does_not_forget_a_mail_that_was_sent(
    tmp_path: Path, smtp: FaultySmtp, sandbox: SandboxServer
) -> None:
    with (
        SyncingPostgres() as postgres,
        Installation(tmp_path, smtp, sandbox, DATABASE_URL=postgres.url) as installation,
    ):
        installation.prepare()
        installation.serve()
        action_id = installation.approved("Hello")
        installation.stop()
        postgres.stop()
        disk = Disk(postgres.folder / "data", postgres.folder)
        disk.begin()
        postgres.give_away()
        postgres.disk = disk
        postgres.start()
        silent = smtp.silence(at="accepted")
        worker = installation.worker()
        silent.wait()
        postgres.cut_off()
        cut_off(worker)
        silent.release()
        assert len(smtp.ledger) == 1

        postgres.start()
        installation.serve()
        installation.worker()

        assert installation.reaches(action_id, "unknown", "succeeded", "failed")["state"] == "unknown"
        assert len(smtp.ledger) == 1
