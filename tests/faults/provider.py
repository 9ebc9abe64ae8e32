"""The interface of a fake provider in the proof: its own ledger, faults drawn from the seed, and an
end to them.

A fake server of another kind joins the proof by keeping a Ledger and drawing its faults from Dice.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Generic, Protocol, TypeVar

F = TypeVar("F")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One mail that the provider took responsibility for; `sha256` is that of its bytes without the
    Date in front.

    A provider that writes the bytes itself has a hash of the content of the request instead:
    `content`, of content_of.
    """

    message_id: str
    sender: str
    recipients: tuple[str, ...]
    sha256: str
    at: datetime
    content: str = ""


class Ledger:
    """The provider's own record of sent mail, independent of the database."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    def add(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)

    def entries(self) -> tuple[Entry, ...]:
        with self._lock:
            return tuple(self._entries)


class Dice(Generic[F]):
    """The fault of each session, if any: the n-th session of a seed always meets the same one."""

    def __init__(self, seed: object, faults: Sequence[F], *, rate: float) -> None:
        self._seed, self._faults, self._rate = seed, faults, rate
        self._sessions = 0
        self._lock = threading.Lock()
        self.met: Counter[str] = Counter()
        self.healed = threading.Event()  # faults that wait for a delay wait on this

    def draw(self) -> F | None:
        with self._lock:
            self._sessions += 1
            session = self._sessions
        if self.healed.is_set():
            return None
        random = Random(f"{self._seed} session {session}")
        return random.choice(self._faults) if random.random() < self._rate else None

    def meets(self, name: str) -> None:
        with self._lock:
            self.met[name] += 1


class Provider(AbstractContextManager[Any, None], Protocol):
    """A server that accepts mail, started and ended by a `with` block."""

    ledger: Ledger

    @property
    def faults(self) -> Counter[str]:
        """Return how often each kind of fault was met."""
        ...

    def environment(self) -> dict[str, object]:
        """Return the environment variables that the programs need to find it."""
        ...

    def access(self, address: str, kind: str) -> dict[str, Any]:
        """Return the arguments that connect a mailbox of a kind to it: `provider`, `secrets` and
        `scopes`.
        """
        ...

    def calls(self) -> Counter[str]:
        """Return how often the call that sends has come in for each mail, by its Message-ID and
        with any result. It is empty where the ledger says the same.
        """
        ...

    def connection(
        self, address: str, kind: str, *, change: str, number: int
    ) -> tuple[list[str], str]:
        """Return the arguments of connect_mailbox that connect a mailbox again, and its input.

        `change`: to another "account" or "server", or with another "password". No account of one
        number is that of another.
        """
        ...

    def end_sign_in(self, address: str) -> None:
        """End every sign-in at a mailbox, until `connection` begins another one."""
        ...

    def heal(self) -> None:
        """Stop all faults."""
        ...
