"""A power cut right after the mail server has accepted a mail: only synced data is left, and
nothing is sent again.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tests.support.power.disk import Disk
from tests.support.power.postgres import DurablePostgres
from tests.support.processes.installation import Installation, cut_off
from tests.support.processes.person import request
from tests.support.servers.sandbox import SandboxServer
from tests.support.servers.smtp import FaultySmtp

pytestmark = pytest.mark.process


def test_sqlite_does_not_lose_a_sent_mail(
    tmp_path: Path, smtp: FaultySmtp, sandbox: SandboxServer
) -> None:
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
        worker = installation.worker(MAILHUB_LEASE_SECONDS=3, **disk.environment)
        silent.wait()
        cut_off(worker)
        disk.cut()
        silent.release()
        assert len(smtp.ledger) == 1

        installation.serve()
        installation.worker()

        assert (
            installation.reaches(action_id, "unknown", "succeeded", "failed")["state"] == "unknown"
        )
        assert len(smtp.ledger) == 1
        # The home still belongs to its database.
        assert "paused" not in request(f"{installation.url}/statusz").json()


@pytest.mark.long
def test_postgresql_does_not_lose_a_sent_mail(
    tmp_path: Path, smtp: FaultySmtp, sandbox: SandboxServer
) -> None:
    with (
        DurablePostgres(recorded=True) as postgres,
        Installation(tmp_path, smtp, sandbox, DATABASE_URL=postgres.url) as installation,
    ):
        installation.prepare()
        installation.serve()
        action_id = installation.approved("Hello")
        silent = smtp.silence(at="accepted")
        worker = installation.worker(MAILHUB_LEASE_SECONDS=3)
        silent.wait()
        postgres.cut_off()
        cut_off(worker)
        silent.release()
        assert len(smtp.ledger) == 1

        postgres.start()
        installation.serve()
        installation.worker()

        assert (
            installation.reaches(action_id, "unknown", "succeeded", "failed")["state"] == "unknown"
        )
        assert len(smtp.ledger) == 1


def test_database_follows_the_clock_that_the_proof_sets() -> None:
    with DurablePostgres() as server, psycopg.connect(server.url, autocommit=True) as connection:
        server.clock.move(timedelta(days=2))
        row = connection.execute("SELECT now()").fetchone()
    assert row is not None
    assert row[0] - datetime.now(UTC) > timedelta(days=1)
