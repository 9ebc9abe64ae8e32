"""An SMTP server that fails by the seed, and a Dovecot behind it that keeps the sent mail of some
mailboxes.
"""

import re
import socket
import threading
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes
from hashlib import sha256
from typing import Any, Self

from imapclient import IMAPClient

from tests.faults.provider import Dice, Entry, Ledger
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.imap_service import PASSWORD
from tests.support.servers.smtp import Accepted, FaultySmtp, Point, SmtpFault

SENT = "Sent Messages"
NEW_PASSWORD = f"{PASSWORD}-and-new"
SECOND_PASSWORD = f"""passdb {{
  driver = static
  args = password={NEW_PASSWORD}
}}
"""
# The one line that is put in front when a mail is sent (docs/decisions/0001).
DATE_IN_FRONT = re.compile(rb"\ADate: [^\r\n]*\r\n")


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The fault of one session at one point: a wait, and then perhaps another answer than the good
    one.
    """

    name: str
    at: Point
    seconds: float = 0
    fault: SmtpFault | None = None


def _drop(at: Point, name: str, *, seconds: float = 0) -> Planned:
    return Planned(name=name, at=at, seconds=seconds, fault=SmtpFault(kind="drop"))


def _reset(at: Point, name: str) -> Planned:
    return Planned(name=name, at=at, fault=SmtpFault(kind="reset"))


def _reply(at: Point, answer: str, name: str) -> Planned:
    return Planned(name=name, at=at, fault=SmtpFault(kind="reply", answer=f"{answer}\r\n".encode()))


LOST_ANSWERS = (
    _drop("accepted", "accepted, then dropped"),
    _reset("accepted", "accepted, then reset"),
    _drop("accepted", "accepted, then silence", seconds=6),
    _reply("accepted", "what", "accepted, then rubbish"),
)
SLOW_CONTENT = Planned(name="slow before the content", at="data", seconds=2.5)
SLOW_ANSWER = Planned(name="slow after it was accepted", at="accepted", seconds=2.5)
FAULTS = (
    _drop("connect", "dropped at connect"),
    _drop("auth", "dropped at AUTH"),
    _drop("rcpt", "dropped at RCPT"),
    _drop("data", "dropped before 354"),
    _reset("content", "reset in the content"),
    _drop("dot", "dropped before it was accepted"),
    *LOST_ANSWERS,
    _reply("mail", "421 4.3.2 later", "421 at MAIL"),
    _reply("rcpt", "451 4.2.0 later", "451 at RCPT"),
    _reply("rcpt", "550 5.1.1 who", "550 at RCPT"),
    _reply("dot", "451 4.3.0 later", "451 after the dot"),
    _reply("dot", "421 4.3.2 later", "421 after the dot"),
    _reply("dot", "554 5.6.0 no", "554 after the dot"),
    SLOW_CONTENT,
    Planned(name="slow before it was accepted", at="dot", seconds=2.5),
    SLOW_ANSWER,
)


class SeededSmtp(FaultySmtp):
    """An SMTP server whose connections draw their faults from the dice."""

    def __init__(self, dice: Dice[Planned]) -> None:
        super().__init__()
        self.dice = dice
        self._planned: dict[socket.socket, Planned] = {}

    def serve(self, sock: socket.socket) -> None:
        planned = self.dice.draw()
        if planned is not None:
            self._planned[sock] = planned
        try:
            super().serve(sock)
        finally:
            self._planned.pop(sock, None)

    def fault_at(
        self, sock: socket.socket, point: Point, recipient: str | None
    ) -> SmtpFault | None:
        planned = self._planned.get(sock)
        if planned is None or planned.at != point:
            return None
        del self._planned[sock]
        self.dice.meets(planned.name)
        self.dice.healed.wait(planned.seconds)
        return planned.fault


class SmtpAndImap:
    """The provider of the proof; it puts the mail of every mailbox in `keeping` into Sent by
    itself.
    """

    def __init__(self, ledger: Ledger, dice: Dice[Planned], *, keeping: frozenset[str]) -> None:
        self.ledger = ledger
        self._keeping = keeping
        self._imap = Dovecot(more=SECOND_PASSWORD)
        self._smtp, self._other_smtp = SeededSmtp(dice), SeededSmtp(dice)
        self._smtp.on_accept = self._other_smtp.on_accept = self._accepted
        self._users: dict[str, str] = {}
        self._clients: dict[str, IMAPClient] = {}
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)

    def __enter__(self) -> Self:
        self._imap.__enter__()
        self._smtp.__enter__()
        self._other_smtp.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self.heal()
        try:
            self._smtp.__exit__(*raised)
            self._other_smtp.__exit__(*raised)
        finally:
            for client in self._clients.values():
                with suppress(OSError, IMAPClient.Error):
                    client.shutdown()
            self._imap.close()

    @property
    def faults(self) -> Counter[str]:
        return self._smtp.dice.met

    def environment(self) -> dict[str, object]:
        ports = (self._imap.port, self._smtp.port, self._other_smtp.port)
        return {"MAILHUB_LOOPBACK_SERVERS": ",".join(f"127.0.0.1:{port}" for port in ports)}

    def access(self, address: str, kind: str) -> dict[str, Any]:
        secrets = self._imap.access(address, smtp_port=self._smtp.port).as_secrets()
        return {"provider": "imap", "secrets": secrets, "scopes": ["read", "send"]}

    def connection(
        self, address: str, kind: str, *, change: str, number: int
    ) -> tuple[list[str], str]:
        """A server that ignores the case of a name has one account with many names."""
        name, _, domain = address.partition("@")
        letters = (
            letter.upper() if number >> place & 1 else letter for place, letter in enumerate(domain)
        )
        if change != "password":
            self._users[address] = f"{name}@{''.join(letters)}"
        smtp = self._other_smtp if change == "server" else self._smtp
        return [
            *("imap", "--imap", f"127.0.0.1:{self._imap.port}:plain"),
            *("--smtp", f"127.0.0.1:{smtp.port}:plain"),
            *("--username", self._users.get(address, address), "--password-stdin"),
        ], NEW_PASSWORD if change == "password" else PASSWORD

    def end_sign_in(self, address: str) -> None:
        """Do nothing: a password does not end."""

    def calls(self) -> Counter[str]:
        return Counter()

    def heal(self) -> None:
        self._smtp.dice.healed.set()

    def _accepted(self, accepted: Accepted) -> None:
        self.ledger.add(
            Entry(
                message_id=str(message_from_bytes(accepted.content)["Message-ID"]),
                sender=accepted.sender,
                recipients=accepted.recipients,
                sha256=sha256(DATE_IN_FRONT.sub(b"", accepted.content)).hexdigest(),
                at=datetime.now(UTC),
            )
        )
        if accepted.sender in self._keeping:
            with self._locks[accepted.sender]:
                if accepted.sender not in self._clients:
                    self._clients[accepted.sender] = self._imap.connect(accepted.sender)
                self._clients[accepted.sender].append(SENT, accepted.content, flags=(rb"\Seen",))
