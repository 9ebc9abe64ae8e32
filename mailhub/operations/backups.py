"""Backups: the database by the engine's own tool, the home, the send journal, and which keys fit.

The home is copied before the database. So the database knows at least all that the copied journal and
heads of the audit name, however much happens meanwhile, and the copy verifies. The keys are not in
it: with the keys and a backup anybody can read the mail.
"""

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from hashlib import file_digest, sha256
from pathlib import Path
from typing import IO, Any

import django
from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection
from django.db.backends.postgresql.client import DatabaseClient
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from accounts.infra.credentials import configured_keys, key_id
from accounts.infra.durable_files import sync_folder
from accounts.infra.foreign_text import load_json
from approvals.audit import chain
from approvals.gate.pauses import restored

HEADS, OF_HEADS = "heads", "audit-heads*.jsonl"
MANIFEST, HOME, JOURNAL = "manifest.json", "home", "send-journal.jsonl"
DATABASES = {"sqlite": "database.sqlite3", "postgresql": "database.dump"}
# The files of a running process or of the machine, and the keys.
LEFT_OUT = ("mailhub.env", "*.lock", "*.new", "*.unfinished", "turns", "*.stamp", JOURNAL)


def back_up(folder: Path) -> dict[str, Any]:
    """Write a backup into an empty folder, and return its manifest, which is written last."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise CommandError(f"{folder} is not empty. Name a new folder for each backup.")
    began = timezone.now()
    _copy_home(folder)
    database = folder / DATABASES[connection.vendor]
    if connection.vendor == "sqlite":
        _dump_sqlite(database)
    else:
        database.touch(0o600)
        _run_tool("pg_dump", "--format=custom", f"--file={database}")
    manifest = {
        "began": began.isoformat(),
        "ended": timezone.now().isoformat(),
        "engine": connection.vendor,
        "django": django.__version__,
        "migrations": dict(sorted(MigrationRecorder(connection).applied_migrations())),
        "keys": fingerprints(),
        "files": _hashes(folder),
    }
    unfinished = folder / "manifest.unfinished"
    unfinished.write_text(json.dumps(manifest, indent=2) + "\n")
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    unfinished.rename(folder / MANIFEST)
    sync_folder(folder)
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a whole, unchanged backup that fits this engine and these keys.

    Raises CommandError with the reason.
    """
    try:
        manifest: dict[str, Any] = load_json((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        raise CommandError(f"{folder} is no whole backup: it has no {MANIFEST}.") from None
    if manifest["engine"] != connection.vendor:
        raise CommandError(
            f"The backup is of {manifest['engine']}, and DATABASE_URL names {connection.vendor}."
        )
    ours = fingerprints()
    missing = [each for each in manifest["keys"]["encryption"] if each not in ours["encryption"]]
    if missing or manifest["keys"]["secret"] != ours["secret"]:
        raise CommandError(
            "The backup was made with other keys. Bring SECRET_KEY and MAILHUB_ENCRYPTION_KEYS of that time back:"
            f" encryption {', '.join(manifest['keys']['encryption'])}, secret {manifest['keys']['secret']}."
        )
    found = _hashes(folder)
    broken = [name for name, said in manifest["files"].items() if found.get(name) != said]
    if broken:
        raise CommandError(f"The backup was changed or is not whole: {', '.join(sorted(broken))}.")
    return manifest


def restore_database(folder: Path) -> None:
    """Replace the database by that of the backup; connections that are open go on with it."""
    source = folder / DATABASES[connection.vendor]
    if connection.vendor == "sqlite":
        target = settings.DATABASES["default"]["NAME"]
        connection.close()
        with (
            closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as copy,
            closing(sqlite3.connect(target, timeout=60)) as database,
        ):
            copy.backup(database)
        return
    read = (
        "pg_restore",
        "--no-owner",
        "--no-privileges",
        "--schema=public",
        "--file=-",
        str(source),
    )
    with subprocess.Popen(read, stdout=subprocess.PIPE) as script:
        # The whole schema goes, because a newer version may have tables that the backup lacks.
        _run_tool(
            "psql",
            *("--quiet", "--no-psqlrc", "--single-transaction", "--set=ON_ERROR_STOP=1"),
            *(
                "--command=SET client_min_messages = warning",
                "--command=DROP SCHEMA public CASCADE",
            ),
            *("--command=CREATE SCHEMA public", "--file=-"),
            stdin=script.stdout,
        )
    if script.returncode:
        raise CommandError("pg_restore failed, and the database may be empty. Restore it again.")
    connection.close()


def restore_home(folder: Path) -> list[str]:
    """Copy the files that the home lacks, and return their names.

    What is there is newer and stays: its journal names sends that the backup does not know.
    """
    home, copied = Path(settings.MAILHUB_HOME), []
    places = {path: home / path.relative_to(folder / HOME) for path in _files(folder / HOME)}
    for path in (folder / HEADS).glob(OF_HEADS):
        places[path] = chain.folder() / path.name
    if (folder / JOURNAL).exists():
        places[folder / JOURNAL] = restored.journal_file()
    for source, target in places.items():
        if not target.exists():
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy2(source, target)
            copied.append(target.name)
    return sorted(copied)


def fingerprints() -> dict[str, Any]:
    """Return short public names of the keys, by which an operator finds the right files."""
    secret = sha256(b"mailhub key id" + settings.SECRET_KEY.encode()).hexdigest()[:8]
    return {"encryption": [key_id(key).hex() for key in configured_keys()], "secret": secret}


def _copy_home(folder: Path) -> None:
    database = Path(str(connection.settings_dict["NAME"]))
    own = [f"{database.name}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")]
    shutil.copytree(
        settings.MAILHUB_HOME,
        folder / HOME,
        ignore=lambda at, names: {
            *shutil.ignore_patterns(*LEFT_OUT)(at, names),
            *(own if Path(at) == database.parent and connection.vendor == "sqlite" else ()),
            # Not a backup inside of the home, and no pipe of a queue.
            *(name for name in names if not _is_kept(Path(at) / name, folder)),
        },
    )
    (folder / HEADS).mkdir(mode=0o700)
    for path in chain.folder().glob(OF_HEADS):  # beside the journal, which may be elsewhere
        shutil.copy2(path, folder / HEADS)
    if restored.journal_file().exists():
        with restored.hold_journal():  # no half line
            shutil.copy2(restored.journal_file(), folder / JOURNAL)


def _is_kept(path: Path, folder: Path) -> bool:
    if path.is_dir():
        return (
            folder.resolve() not in (path.resolve(), *path.resolve().parents)
            and not (path / MANIFEST).exists()
        )
    return path.is_file()


def _dump_sqlite(target: Path) -> None:
    with (
        closing(sqlite3.connect(str(connection.settings_dict["NAME"]), timeout=60)) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)  # in one step: each write between two steps would begin it again


def _run_tool(program: str, *arguments: str, stdin: IO[bytes] | None = None) -> None:
    """Run a client of PostgreSQL with the settings of DATABASE_URL, the password by environment."""
    command, more = DatabaseClient.settings_to_cmd_args_env(connection.settings_dict, [])
    name = command.pop()
    try:
        done = subprocess.run(
            [program, *command[1:], f"--dbname={name}", *arguments],
            env={**os.environ, **(more or {})},
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise CommandError(
            f"{program} is missing. Install PostgreSQL's client, at least of the server's version."
        ) from None
    if done.returncode:
        raise CommandError(f"{program} failed: {done.stderr.strip()}")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): _hash(path)
        for path in _files(folder)
        if path.parent != folder or not path.name.startswith("manifest.")
    }


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
