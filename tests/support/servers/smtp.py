"""An SMTP server that fails on demand, and whose ledger is the witness of sent mail."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Literal

import pytest

from tests.support.servers.listening import SECONDS, Listening

Point = Literal[
    "connect",
    "greeting",
    "ehlo",
    "auth",
    "rset",
    "mail",
    "rcpt",
    "data",
    "content",
    "dot",
    "accepted",
    "quit",
]


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A mail that the server took responsibility for."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes


class Hold:
    """A point where the server waits until it is released; the client waits with it."""

    def __init__(self) -> None:
        self.seconds: float = SECONDS
        self._reached = threading.Event()
        self._released = threading.Event()

    def wait(self) -> None:
        """Return when the server has reached the point."""
        assert self._reached.wait(SECONDS), "the server did not get there"

    def release(self) -> None:
        self._released.set()

    def stand(self) -> None:
        self._reached.set()
        assert self._released.wait(self.seconds), "nobody released the server"


@dataclass(kw_only=True)
class SmtpFault:
    """A replacement of the good answer: end of file, a reset, or another answer."""

    kind: Literal["drop", "reset", "reply"]
    answer: bytes = b""
    recipient: str | None = None
    times: int | None = None


class _ConnectionEnds(OSError):
    """The server disconnects."""


class FaultySmtp(Listening):
    """An SMTP server with AUTH that accepts everything, except where a test makes it fail.

    `ledger` is its own record of accepted mail. The points where it can fail or wait, in the order
    of a session: connect, greeting, ehlo, auth, rset, mail, rcpt, data (before 354), content (after its
    first line), dot (before it is accepted), accepted (it is in the ledger, the answer is not sent
    yet), quit.
    """

    ACCEPTED_ANSWER: ClassVar[bytes] = b"250 2.0.0 OK\r\n"

    def __init__(
        self, *, size_limit: int | None = None, on_accept: Callable[[Accepted], None] | None = None
    ) -> None:
        super().__init__()
        self.ledger: list[Accepted] = []
        self.commands: list[str] = []
        self.raw_contents: list[bytes] = []  # as on the wire, dot-stuffed
        self.hang_up_after_reply = False
        self.on_accept = on_accept
        self._size_limit = size_limit
        self._faults: dict[Point, list[SmtpFault]] = {}
        self._holds: dict[Point, list[Hold]] = {}
        self._all_holds: list[Hold] = []

    @property
    def data_commands(self) -> int:
        return sum(command.upper() == "DATA" for command in self.commands)

    def drop(self, *, at: Point, times: int | None = 1) -> None:
        """Close the connection there: an orderly end of file for the client."""
        self._plan(at, SmtpFault(kind="drop", times=times))

    def reset(self, *, at: Point, times: int | None = 1) -> None:
        """Reset the connection there."""
        self._plan(at, SmtpFault(kind="reset", times=times))

    def reply(
        self, answer: str | bytes, *, at: Point, recipient: str | None = None, times: int | None = 1
    ) -> None:
        """Give this answer there instead of the good one; bytes are sent unchanged. 421 ends the
        connection.
        """
        raw = answer if isinstance(answer, bytes) else f"{answer}\r\n".encode()
        self._plan(at, SmtpFault(kind="reply", answer=raw, recipient=recipient, times=times))

    def hold(self, *, at: Point) -> Hold:
        """Wait there once, until released."""
        hold = Hold()
        self._holds.setdefault(at, []).append(hold)
        self._all_holds.append(hold)
        return hold

    def silence(self, *, at: Point) -> Hold:
        """Send nothing there until released, then disconnect."""
        self.drop(at=at)
        return self.hold(at=at)

    def heal(self) -> None:
        """Forget all faults."""
        self._faults.clear()

    def __exit__(self, *raised: Any) -> None:
        for hold in self._all_holds:
            hold.release()
        super().__exit__(*raised)

    def serve(self, sock: socket.socket) -> None:
        with sock.makefile("rb") as lines:
            self._meet(sock, "connect")
            self._answer(sock, "greeting", b"220 faulty.example ESMTP\r\n")
            sender, recipients = "", list[str]()
            while line := lines.readline():
                command = line.decode("utf-8", "replace").strip()
                self.commands.append(command)
                verb, _, rest = command.partition(" ")
                match verb.upper():
                    case "EHLO" | "HELO":
                        self._answer(sock, "ehlo", self._features())
                    case "AUTH":
                        self._answer(sock, "auth", b"235 2.7.0 OK\r\n")
                    case "MAIL":
                        sender, recipients = _address(rest), []
                        self._answer(sock, "mail", b"250 2.1.0 OK\r\n")
                    case "RCPT":
                        if self._answer(
                            sock, "rcpt", b"250 2.1.5 OK\r\n", recipient=_address(rest)
                        ):
                            recipients.append(_address(rest))
                    case "DATA":
                        if self._answer(sock, "data", b"354 go ahead\r\n"):
                            content = self._content(sock, lines)
                            if self._meet(sock, "dot") is None:
                                self._accept_mail(
                                    sock,
                                    Accepted(
                                        sender=sender, recipients=tuple(recipients), content=content
                                    ),
                                )
                    case "RSET":
                        self._answer(sock, "rset", b"250 2.0.0 OK\r\n")
                    case "NOOP":
                        sock.sendall(b"250 2.0.0 OK\r\n")
                    case "QUIT":
                        self._answer(sock, "quit", b"221 2.0.0 bye\r\n")
                        return
                    case _:
                        sock.sendall(b"500 5.5.2 what?\r\n")

    def _accept_mail(self, sock: socket.socket, accepted: Accepted) -> None:
        self.ledger.append(accepted)
        if self.on_accept:
            self.on_accept(accepted)
        self._answer(sock, "accepted", self.ACCEPTED_ANSWER)

    def _features(self) -> bytes:
        size = f"250-SIZE {self._size_limit}\r\n" if self._size_limit is not None else ""
        return f"250-faulty.example\r\n{size}250 AUTH PLAIN\r\n".encode()

    def _content(self, sock: socket.socket, lines: BinaryIO) -> bytes:
        raw = [lines.readline()]
        self._meet(sock, "content")
        while raw[-1] != b".\r\n":
            raw.append(lines.readline())
            if not raw[-1]:
                raise _ConnectionEnds
        self.raw_contents.append(b"".join(raw))
        return b"".join(line.removeprefix(b".") for line in raw[:-1])

    def _answer(
        self, sock: socket.socket, point: Point, usual: bytes, *, recipient: str | None = None
    ) -> bool:
        """Give the usual answer unless a fault replaces it; return True if one with its code was given."""
        given = self._meet(sock, point, recipient=recipient)
        if given is None:
            sock.sendall(usual)
        return given is None or given.startswith(usual[:3])

    def _meet(
        self, sock: socket.socket, point: Point, *, recipient: str | None = None
    ) -> bytes | None:
        """Wait and fail as planned for the point; return the answer given instead of the usual one,
        if any.
        """
        if holds := self._holds.get(point):
            holds.pop(0).stand()
        fault = self.fault_at(sock, point, recipient)
        if fault is None:
            return None
        if fault.kind == "reset":
            # With a linger time of zero, close() sends a reset.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if fault.kind != "reply":
            raise _ConnectionEnds
        sock.sendall(fault.answer)
        if self.hang_up_after_reply or fault.answer.startswith(b"421"):
            raise _ConnectionEnds
        return fault.answer

    def fault_at(
        self, sock: socket.socket, point: Point, recipient: str | None
    ) -> SmtpFault | None:
        """Return the planned fault of this point, if any, and use it up if its number is
        limited.
        """
        for fault in self._faults.get(point, []):
            if fault.times == 0 or fault.recipient not in (None, recipient):
                continue
            if fault.times is not None:
                fault.times -= 1
            return fault
        return None

    def _plan(self, at: Point, fault: SmtpFault) -> None:
        self._faults.setdefault(at, []).append(fault)


def _address(rest: str) -> str:
    """Return the text in the angle brackets of MAIL FROM and RCPT TO."""
    return rest.partition("<")[2].partition(">")[0]


@pytest.fixture
def smtp() -> Iterator[FaultySmtp]:
    with FaultySmtp() as server:
        yield server
