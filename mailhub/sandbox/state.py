"""What survives a restart of the sandbox, apart from the mail: ports, accounts, the mark of
seeding.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

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
    """Where a sandbox listens and who may sign in: the user, then the colleague, then the customer."""

    host: str
    imap_port: int
    smtp_port: int
    accounts: tuple[Account, ...]
    seeded: bool = False


def directory(home: Path) -> Path:
    """The folder under the home that belongs to the sandbox alone."""
    return home / "sandbox"


def load_state(home: Path) -> Sandbox | None:
    """The sandbox that this home had the last time it ran, or None before its first start."""
    try:
        text = (directory(home) / "state.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    saved = json.loads(text)
    accounts = tuple(Account(**account) for account in saved.pop("accounts"))
    return Sandbox(**saved, accounts=accounts)


def save_state(home: Path, sandbox: Sandbox) -> None:
    """Replaces state.json in one step, so that a reader sees the old one or the new one, whole."""
    target = directory(home) / "state.json"
    fresh = target.with_suffix(".new")
    # A file left by a crash could have another mode; os.open applies the mode to new files only.
    fresh.unlink(missing_ok=True)
    with os.fdopen(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as out:
        json.dump(asdict(sandbox), out, indent=1, ensure_ascii=False)
    fresh.replace(target)


def first_state(host: str) -> Sandbox:
    """A sandbox that has never run: random passwords, ports still to be chosen (0)."""
    accounts = tuple(
        Account(address=address, name=name, password=secrets.token_urlsafe(18))
        for address, name in PEOPLE
    )
    return Sandbox(host=host, imap_port=0, smtp_port=0, accounts=accounts)


def with_ports(sandbox: Sandbox, *, host: str, imap_port: int, smtp_port: int) -> Sandbox:
    """The same sandbox at the place where it listens now, its seeding done."""
    return replace(sandbox, host=host, imap_port=imap_port, smtp_port=smtp_port, seeded=True)
