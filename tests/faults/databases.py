"""The database of the proof, PostgreSQL or SQLite: reading it, copying it, restoring a copy, and
losing power.
"""

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self

import psycopg

from tests.support.power.disk import Disk
from tests.support.power.postgres import DurablePostgres

BUSY_SECONDS = 20.0  # SQLite has one writer at a time, and a frozen worker may be that writer
LOG_SOURCE = Path(__file__).parent.parent / "support" / "power" / "sqlite_log.c"
LITERAL_NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"  # as Django stores a time on SQLite


class Connection(Protocol):
    """A connection of the proof's own, which commits each statement; use it as a context
    manager.
    """

    def execute(self, query: str, params: Sequence[object] = (), /) -> Any:
        """Run one statement in the dialect of PostgreSQL, and return a cursor."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class OnPostgres(DurablePostgres):
    """A private server."""

    environment: Mapping[str, object] = MappingProxyType({})

    def connect(self, url: str, *, writes: bool) -> Connection:
        # The proof writes also while the server takes no writes of the programs.
        options = "-c default_transaction_read_only=off"
        connection: Any = psycopg.connect(url, autocommit=True, connect_timeout=5, options=options)
        return connection  # type: ignore[no-any-return]

    def refusals(self) -> str:
        """Return the log that holds each statement which the database has refused."""
        return self.log()


class SqliteConnection:
    """A connection that takes the few statements of the proof in PostgreSQL's dialect."""

    def __init__(self, path: Path, *, writes: bool) -> None:
        # A writable connection would empty the log of commits when it is closed, unseen by the
        # recorded disk.
        mode = "rw" if writes else "ro"
        self._connection = sqlite3.connect(
            f"file:{path}?mode={mode}", uri=True, isolation_level=None, timeout=BUSY_SECONDS
        )

    def execute(self, query: str, params: Sequence[object] = (), /) -> Any:
        translated = re.sub(r"\bnow\(\)", LITERAL_NOW, query.replace("%s", "?"))
        return self._connection.execute(translated, params)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


class OnSqlite:
    """A file in the home.

    `disk`, if there is one, records the home; the programs' refusals go into a log.
    """

    def __init__(self, kept: Path, scratch: Path, disk: Disk | None) -> None:
        self._kept, self._disk = kept, disk
        self._copy, self._log = scratch / "copy.sqlite3", scratch / "sqlite.log"
        library = scratch / "sqlite_log.so"
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O2", "-o", library, LOG_SOURCE, "-ldl"],
            check=True,
            timeout=60,
        )
        self.environment: Mapping[str, object] = {"LD_PRELOAD": library, "SQLITE_LOG": self._log}
        self.url = self._url("mailhub")

    def connect(self, url: str, *, writes: bool) -> Connection:
        return SqliteConnection(_path(url), writes=writes)

    def refusals(self) -> str:
        """Return the log that holds each statement which the database has refused."""
        return self._log.read_text() if self._log.exists() else ""

    def dump(self, url: str) -> None:
        """Copy a database while it is used, as `sqlite3 .backup` does.

        A later copy replaces this one.
        """
        self._copy.unlink(missing_ok=True)
        uri = f"file:{_path(url)}?mode=ro"
        with (
            closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as source,
            closing(sqlite3.connect(self._copy)) as copy,
        ):
            source.backup(copy)

    def restore(self, name: str) -> str:
        """Make a database of the copy, and return its address."""
        url = self._url(name)
        target = _path(url)
        shutil.copy(self._copy, target)
        if self._disk is not None:
            self._disk.keep(target)
        return url

    def start(self) -> None:
        """Do nothing: there is no server."""

    stop = crash = cut_off = start
    clock = None  # it asks the clock of each program

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _url(self, name: str) -> str:
        return f"sqlite:///{self._kept}/{name}.sqlite3"


def _path(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))
