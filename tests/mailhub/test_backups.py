"""`backup` and `restore` while proposals and sends go on: nothing is sent twice, the audit verifies."""

import json
import stat
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from approvals.audit import chain
from mailhub.operations import backups
from tests.security.test_content_at_rest import NEW_KEY
from tests.support.processes.installation import Installation
from tests.support.processes.person import request
from tests.support.processes.programs import until
from tests.support.servers.sandbox import SandboxServer
from tests.support.servers.services import Postgres
from tests.support.servers.smtp import FaultySmtp


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield ""
        return
    with Postgres() as server:
        yield server.url


def subjects(smtp: FaultySmtp) -> Counter[str]:
    return Counter(str(message_from_bytes(accepted.content)["Subject"]) for accepted in smtp.ledger)


class Load:
    """Proposals and approvals, one after the other, until the block ends."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            with suppress(Exception):  # the database is replaced meanwhile
                self._installation.approved(f"Mail {number}")

    def __enter__(self) -> None:
        self._installation.person()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.mark.process
@pytest.mark.long
@pytest.mark.timeout(900)
def test_backup_under_load_comes_back_here_and_elsewhere(
    tmp_path: Path, smtp: FaultySmtp, sandbox: SandboxServer, database_url: str
) -> None:
    home, folder = tmp_path / "home", tmp_path / "backup"
    home.mkdir()
    folder.mkdir(0o755)
    with Installation(home, smtp, sandbox, DATABASE_URL=database_url) as installation:
        installation.prepare()
        installation.serve()
        installation.worker()
        with Load(installation):
            until(lambda: len(smtp.ledger) > 2)
            said = installation.command("backup", str(folder))
            backed_up = len(smtp.ledger)
            until(lambda: len(smtp.ledger) > backed_up + 2)
        assert "It opens only with the keys" in said
        assert not list(folder.rglob("mailhub.env"))
        (database,) = folder.glob("database.*")
        assert database.stat().st_mode & 0o077 == 0

        waiting = installation.proposed("Waits when it is restored")
        said = installation.command("restore", str(folder), "--yes")

        assert "Mail may leave again." in said
        assert "what they were" in installation.command("verify_audit")
        assert "gave up events" in installation.command("verify_audit")
        assert "what they were" in installation.command("verify_audit", "--continue")
        assert installation.rest("GET", f"/actions/{waiting}").status == 404
        assert "paused" not in request(f"{installation.url}/statusz").json()
        sent = len(smtp.ledger)
        installation.approved("After the restore")
        until(lambda: len(smtp.ledger) > sent)
        assert max(subjects(smtp).values()) == 1
        installation.stop()

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Installation(elsewhere, smtp, sandbox, DATABASE_URL=database_url) as another:
        said = another.command("restore", str(folder), "--yes")
        assert "Mail may leave again." in said
        assert "what they were" in another.command("verify_audit")
        another.serve()
        assert "paused" not in request(f"{another.url}/statusz").json()


@pytest.mark.django_db(transaction=True)
def test_heads_of_the_audit_come_back_beside_the_journal(tmp_path: Path, settings: Any) -> None:
    for place in ("home", "volume"):
        (tmp_path / place).mkdir()
    settings.MAILHUB_HOME = tmp_path / "home"
    settings.MAILHUB_SEND_JOURNAL = str(tmp_path / "volume" / "send-journal.jsonl")
    heads = chain.heads_file()
    heads.write_text("a head\n")
    (tmp_path / "home" / heads.name).write_text("of an earlier version\n")
    backups.back_up(tmp_path / "backup")

    settings.MAILHUB_HOME = tmp_path / "new-home"
    settings.MAILHUB_SEND_JOURNAL = str(tmp_path / "new-volume" / "send-journal.jsonl")
    backups.restore_home(tmp_path / "backup")

    assert chain.heads_file() != heads
    assert chain.heads_file().read_text() == "a head\n"
    chain.heads_file().write_text("a head\na newer one\n")
    assert backups.restore_home(tmp_path / "backup") == []
    assert "newer" in chain.heads_file().read_text()


@pytest.mark.django_db(transaction=True)
def test_backup_is_refused_if_changed_or_of_other_keys(tmp_path: Path, settings: Any) -> None:
    settings.MAILHUB_HOME = home = tmp_path / "home"
    home.mkdir()
    (home / "mailhub.env").write_text("SECRET_KEY=secret")
    (home / "kept").write_text("of the home")
    folder = tmp_path / "backup"
    backups.back_up(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert settings.SECRET_KEY not in json.dumps(manifest)
    assert [path.name for path in (folder / "home").iterdir()] == ["kept"]
    assert backups.read_manifest(folder) == manifest
    (database,) = folder.glob("database.*")
    assert stat.filemode(database.stat().st_mode) == "-rw-------"
    with pytest.raises(CommandError, match="not empty"):
        backups.back_up(folder)

    right, settings.SECRET_KEY = settings.SECRET_KEY, "o" * 40
    with pytest.raises(CommandError, match="other keys"):
        backups.read_manifest(folder)
    settings.SECRET_KEY = right
    keys, settings.MAILHUB_ENCRYPTION_KEYS = settings.MAILHUB_ENCRYPTION_KEYS, [NEW_KEY]
    with pytest.raises(CommandError, match="other keys"):
        backups.read_manifest(folder)
    settings.MAILHUB_ENCRYPTION_KEYS = keys
    (folder / "manifest.json").write_text(json.dumps({**manifest, "engine": "oracle"}))
    with pytest.raises(CommandError, match="is of oracle"):
        backups.read_manifest(folder)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "home" / "kept").write_text("changed")
    with pytest.raises(CommandError, match="home/kept"):
        backups.read_manifest(folder)
