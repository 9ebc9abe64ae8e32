"""Kept IMAP sessions: a few signed-in connections for each mailbox, each with its folder still
selected.

Signing in and selecting again is most of the cost of a read. A session is lent to one thread at a
time and checked with NOOP before it is used again. It is closed when idle too long, and never
crosses a fork.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from imapclient import IMAPClient

from accounts.connect.imap import conversation
from tools.providers.errors import Refused

MAX_IDLE_SECONDS = 240.0
MAX_KEPT = 3
ALIVE_SECONDS = 10.0


@dataclass
class Session:
    """A signed-in connection and its selected folder."""

    client: IMAPClient
    folder: str | None = None
    writable: bool = False
    uid_validity: int = 0
    uid_next: int = 0
    prefix: str | None = None  # of the personal namespace, once it was asked for
    used_at: float = field(default_factory=time.monotonic)

    def select(self, folder: str, *, writable: bool = False) -> None:
        """Select the folder, read-only unless it is to be changed; it stays selected."""
        if self.folder == folder and self.writable >= writable:
            return
        self.folder = None
        try:
            answer = self.client.select_folder(folder, readonly=not writable)
        except IMAPClient.ReadOnlyError:
            # imaplib would raise the same error again at every later command.
            self.client._imap.untagged_responses.clear()
            raise
        self.folder, self.writable = folder, writable
        self.uid_validity = int(answer[b"UIDVALIDITY"])
        self.uid_next = int(answer.get(b"UIDNEXT", 0))

    def append(
        self, folder: str, source: bytes, *, flags: Sequence[bytes], at: datetime | None = None
    ) -> None:
        """Add a message to a folder.

        Courier refuses that for the selected folder if it is open for reading only.
        """
        if self.folder == folder:
            self.select(folder, writable=True)
        self.client.append(folder, source, flags=flags, msg_time=at)

    def alive(self) -> bool:
        try:
            with conversation(self.client, ALIVE_SECONDS):
                self.client.noop()
        except (IMAPClient.Error, OSError):
            return False
        return True

    def close(self) -> None:
        with contextlib.suppress(IMAPClient.Error, OSError):
            self.client.shutdown()


class SessionPool:
    """The kept sessions of this process, by key: mailbox and version of its credentials."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[object, list[Session]] = {}
        self._pid = os.getpid()

    @contextmanager
    def session(self, key: object, connect: Callable[[], IMAPClient]) -> Iterator[Session]:
        """Lend a session; it comes back unless it failed."""
        session = self._take(key) or Session(client=connect())
        try:
            yield session
        except Refused:
            self._give_back(key, session)  # a refusal leaves the session usable
            raise
        except BaseException:
            session.close()
            raise
        self._give_back(key, session)

    def close_all(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for sessions in idle.values():
            for session in sessions:
                session.close()

    def _take(self, key: object) -> Session | None:
        while True:
            with self._lock:
                self._forget_what_was_forked()
                sessions = self._idle.get(key)
                if not sessions:
                    return None
                session = sessions.pop()
            if time.monotonic() - session.used_at < MAX_IDLE_SECONDS and session.alive():
                return session
            session.close()

    def _give_back(self, key: object, session: Session) -> None:
        session.used_at = time.monotonic()
        with self._lock:
            self._forget_what_was_forked()
            kept = self._idle.setdefault(key, [])
            if len(kept) < MAX_KEPT:
                kept.append(session)
                return
        session.close()

    def _forget_what_was_forked(self) -> None:
        """Forget the sessions of a parent process; the parent keeps using them.

        Two processes on one connection would read each other's mail.
        """
        if self._pid != os.getpid():
            self._idle, self._pid = {}, os.getpid()


POOL = SessionPool()
