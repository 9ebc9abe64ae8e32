"""A migrated SQLite database that homes begin with: migrations take longer than most of the tests
that need them.
"""

import fcntl
import os
import shutil
import sqlite3
import tempfile
from base64 import b64encode
from functools import cache
from pathlib import Path

from tests.support.processes.programs import manage

FOLDER = "MAILHUB_TEST_TEMPLATE"  # names the folder that all processes of one run share
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
                done = manage(Path(home), "migrate", "--verbosity=0", **KEYS)
                assert done.returncode == 0, done.stderr
                _keep_in_one_file(Path(home) / NAME)
                (Path(home) / NAME).rename(made)
    return made


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
