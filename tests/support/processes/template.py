"""Migrated databases, made once for each run and copied: migrations take longer than most of the
tests that need them.
"""

import fcntl
import os
import shutil
import sqlite3
import tempfile
from base64 import b64encode
from functools import cache
from pathlib import Path

import psycopg
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import sql

from tests.support.processes.programs import manage

# bin/test sets it for all processes of a run. It names the folder of the SQLite file, and the
# database of DATABASE_URL is migrated then. Without it, each process makes its own.
FOLDER = "MAILHUB_TEST_TEMPLATE"
NAME = "mailhub.sqlite3"  # as in mailhub.environment, if DATABASE_URL is empty
KEYS = {"SECRET_KEY": "k" * 40, "MAILHUB_ENCRYPTION_KEYS": b64encode(b"k" * 32).decode()}


def begin_migrated(home: Path) -> None:
    """Give a home without a database one without rows, as `manage.py migrate` leaves it."""
    home.mkdir(parents=True, exist_ok=True)
    if not (home / NAME).exists():
        shutil.copy(migrated_database(), home / NAME)


def migrated_database() -> Path:
    """Return the file of the database. The first caller of a run makes it, and others wait."""
    return _made_in(_folder())


@cache
def _made_in(folder: Path) -> Path:
    made = folder / NAME
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=folder) as home:
                migrate(home)
                _keep_in_one_file(Path(home) / NAME)
                (Path(home) / NAME).rename(made)
    return made


def make_test_database(connection: BaseDatabaseWrapper) -> None:
    """Make the test database of this process as a copy, and let `connection` lead to it."""
    name = connection.settings_dict["TEST"]["NAME"]
    if connection.vendor == "sqlite":
        shutil.copy(migrated_database(), name)
    else:
        _make_on_server(os.environ["DATABASE_URL"], name)
    connection.close()
    settings.DATABASES[connection.alias]["NAME"] = connection.settings_dict["NAME"] = name


def _make_on_server(url: str, name: str) -> None:
    server, _, migrated = url.rpartition("/")
    template = migrated if FOLDER in os.environ else "template0"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        for statement in (
            "DROP DATABASE IF EXISTS {name} WITH (FORCE)",
            "CREATE DATABASE {name} TEMPLATE {template}",
        ):
            identifiers = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
            connection.execute(sql.SQL(statement).format(**identifiers))
    if template != migrated:
        with tempfile.TemporaryDirectory() as home:
            migrate(home, f"{server}/{name}")


def migrate(home: str, url: str = "") -> None:
    """Migrate the database with this URL, or the SQLite file of the home."""
    done = manage(Path(home), "migrate", "--verbosity=0", **KEYS, DATABASE_URL=url)
    assert done.returncode == 0, done.stderr


def _keep_in_one_file(database: Path) -> None:
    """Move the content of the write-ahead log into the database, because only that is copied."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _folder() -> Path:
    shared = os.environ.get(FOLDER)
    return Path(shared) if shared else Path(_of_this_process().name)


@cache
def _of_this_process() -> "tempfile.TemporaryDirectory[str]":
    """Return a folder that is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="mailhub-template-")
