"""State of the sandbox between runs besides the mail: ports, accounts, the mark of seeding."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Container
from dataclasses import asdict, dataclass, field
from pathlib import Path

from accounts.infra.foreign_text import load_json

SANDBOX = "sandbox"  # stands for its two ports in MAILHUB_LOOPBACK_SERVERS
TOKEN_NAME = "sandbox"  # noqa: S105  # a name, not a secret
PEOPLE = (
    ("ada@lovelace.example", "Ada Lovelace"),
    ("charles@lovelace.example", "Charles Babbage"),
    ("mira@northwind.example", "Mira Holm"),
)


@dataclass(frozen=True, kw_only=True)
class Account:
    """One person with a mailbox in the sandbox."""

    address: str
    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """A sandbox's address and accounts: the user, then the colleague, then the customer."""

    host: str
    imap_port: int
    smtp_port: int
    accounts: tuple[Account, ...]
    seeded: bool = False


def directory(home: Path) -> Path:
    """Return the sandbox's own folder under the home."""
    return home / "sandbox"


def load_state(home: Path) -> Sandbox | None:
    """Return the sandbox of this home's last run, or None before its first start."""
    try:
        text = (directory(home) / "state.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    saved = load_json(text)
    accounts = tuple(Account(**account) for account in saved.pop("accounts"))
    return Sandbox(**saved, accounts=accounts)


def save_state(home: Path, sandbox: Sandbox) -> None:
    """Replace state.json in one step, so that a reader gets the complete old or new one."""
    target = directory(home) / "state.json"
    fresh = target.with_suffix(".new")
    # A file from a crash could have another mode, because os.open sets the mode only on new files.
    fresh.unlink(missing_ok=True)
    with os.fdopen(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as out:
        json.dump(asdict(sandbox), out, indent=1, ensure_ascii=False)
    fresh.replace(target)


def first_state(host: str) -> Sandbox:
    """Return a sandbox before its first run: random passwords, ports not chosen yet (0)."""
    accounts = tuple(
        Account(address=address, name=name, password=secrets.token_urlsafe(18))
        for address, name in PEOPLE
    )
    return Sandbox(host=host, imap_port=0, smtp_port=0, accounts=accounts)


@dataclass(frozen=True)
class LoopbackServers(Container[str]):
    """The mail servers of this machine that mailboxes may use, as ADDRESS:PORT.

    The word "sandbox" stands for the two of the home's sandbox, which chooses them when it starts.
    """

    home: Path
    named: Container[str]

    def servers_of(self, address: str) -> tuple[str, str] | None:
        """Return the servers for incoming and outgoing mail of an address of the sandbox, as
        HOST:PORT:plain; None for any other address.
        """
        state = self._state()
        if state is None or address not in {account.address for account in state.accounts}:
            return None
        return f"{state.host}:{state.imap_port}:plain", f"{state.host}:{state.smtp_port}:plain"

    def __contains__(self, server: object) -> bool:
        state = self._state()
        own = (
            (f"{state.host}:{state.imap_port}", f"{state.host}:{state.smtp_port}") if state else ()
        )
        return server in self.named or server in own

    def _state(self) -> Sandbox | None:
        return load_state(self.home) if SANDBOX in self.named else None
