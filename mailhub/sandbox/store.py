"""The sandbox's mail in one SQLite file: folders with UIDVALIDITY, messages as they arrived."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS folder (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    uid_validity INTEGER NOT NULL,
    next_uid INTEGER NOT NULL DEFAULT 1,
    UNIQUE (account, name)
);
CREATE TABLE IF NOT EXISTS message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    folder INTEGER NOT NULL REFERENCES folder (id) ON DELETE CASCADE,
    uid INTEGER NOT NULL,
    received REAL NOT NULL,
    flags TEXT NOT NULL,
    recent INTEGER NOT NULL,
    raw BLOB NOT NULL,
    UNIQUE (folder, uid)
);
"""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A mailbox in the sense of IMAP, by its row."""

    id: int
    name: str
    uid_validity: int


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The data of a message without its bytes."""

    id: int
    uid: int
    received: datetime
    flags: frozenset[str]
    recent: bool


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """A message to store in a folder."""

    folder: int
    raw: bytes
    received: datetime
    flags: frozenset[str] = frozenset()
    recent: bool = True


class Store:
    """The database of the mail; every method is one transaction, and none waits for another."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self._db = sqlite3.connect(path, isolation_level=None)
        # WAL with NORMAL: a killed process loses nothing, a power cut may lose the last seconds.
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA foreign_keys=ON")
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        self._db.close()

    def is_empty(self) -> bool:
        """Return True if no message was ever stored, so that seeding has not happened."""
        row = self._db.execute("SELECT 1 FROM sqlite_sequence WHERE name = 'message'").fetchone()
        return row is None

    def folders(self, account: str) -> list[Folder]:
        rows = self._db.execute(
            "SELECT id, name, uid_validity FROM folder WHERE account = ? ORDER BY id", (account,)
        )
        return [Folder(id=id_, name=name, uid_validity=validity) for id_, name, validity in rows]

    def add_folder(self, account: str, name: str) -> Folder:
        """Create a folder with a UIDVALIDITY above all before, so a name can be used again."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            cursor = self._db.execute(
                "INSERT INTO folder (account, name, uid_validity) VALUES (?, ?, 0)", (account, name)
            )
            assert cursor.lastrowid is not None
            # Row ids are never used twice, so a folder that is created again in the same second
            # differs too.
            validity = int(time.time()) + cursor.lastrowid
            self._db.execute(
                "UPDATE folder SET uid_validity = ? WHERE id = ?", (validity, cursor.lastrowid)
            )
            return Folder(id=cursor.lastrowid, name=name, uid_validity=validity)

    def rename_folder(self, folder: int, name: str) -> None:
        self._db.execute("UPDATE folder SET name = ? WHERE id = ?", (name, folder))

    def delete_folder(self, folder: int) -> None:
        self._db.execute("DELETE FROM folder WHERE id = ?", (folder,))

    def next_uid(self, folder: int) -> int:
        row = self._db.execute("SELECT next_uid FROM folder WHERE id = ?", (folder,)).fetchone()
        return int(row[0]) if row else 1

    def entries(self, folder: int) -> list[Entry]:
        """Return all messages of a folder in the order of their UIDs."""
        return self._select("folder = ? ORDER BY uid", (folder,))

    def raw(self, message: int) -> bytes | None:
        """Return the bytes of a message, or None if it was deleted."""
        row = self._db.execute("SELECT raw FROM message WHERE id = ?", (message,)).fetchone()
        return None if row is None else bytes(row[0])

    def add(self, messages: Iterable[Incoming]) -> list[Entry]:
        """Store the messages, all or none, and give each the next UID of its folder."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            return [self._add(message) for message in messages]

    def copy(self, message: int, folder: int, *, recent: bool) -> Entry | None:
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            cursor = self._db.execute(
                "INSERT INTO message (folder, uid, received, flags, recent, raw)"
                " SELECT ?, ?, received, flags, ?, raw FROM message WHERE id = ?",
                (folder, self.next_uid(folder), recent, message),
            )
            if cursor.rowcount == 0:
                return None
            self._db.execute("UPDATE folder SET next_uid = next_uid + 1 WHERE id = ?", (folder,))
            return self._select("id = ?", (cursor.lastrowid,))[0]

    def set_flags(self, message: int, flags: frozenset[str]) -> None:
        self._db.execute(
            "UPDATE message SET flags = ? WHERE id = ?", (" ".join(sorted(flags)), message)
        )

    def claim_recent(self, folder: int) -> None:
        self._db.execute("UPDATE message SET recent = 0 WHERE folder = ? AND recent", (folder,))

    def delete(self, messages: Sequence[int]) -> None:
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("DELETE FROM message WHERE id = ?", [(id_,) for id_ in messages])

    def _add(self, message: Incoming) -> Entry:
        uid = self.next_uid(message.folder)
        cursor = self._db.execute(
            "INSERT INTO message (folder, uid, received, flags, recent, raw) VALUES (?, ?, ?, ?, ?, ?)",
            (
                message.folder,
                uid,
                message.received.timestamp(),
                " ".join(sorted(message.flags)),
                message.recent,
                message.raw,
            ),
        )
        self._db.execute(
            "UPDATE folder SET next_uid = next_uid + 1 WHERE id = ?", (message.folder,)
        )
        assert cursor.lastrowid is not None
        return Entry(
            id=cursor.lastrowid,
            uid=uid,
            received=message.received,
            flags=message.flags,
            recent=message.recent,
        )

    def _select(self, where: str, values: Sequence[object]) -> list[Entry]:
        # `where` is a constant of this file, never text from outside.
        query = f"SELECT id, uid, received, flags, recent FROM message WHERE {where}"  # noqa: S608
        with closing(self._db.execute(query, tuple(values))) as rows:
            return [
                Entry(
                    id=id_,
                    uid=uid,
                    received=datetime.fromtimestamp(received, UTC),
                    flags=frozenset(flags.split()),
                    recent=bool(recent),
                )
                for id_, uid, received, flags, recent in rows
            ]
