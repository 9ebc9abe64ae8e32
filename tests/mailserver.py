"""Mail servers for tests: the sandbox as a process, an SMTP server that fails on demand, a tap on IMAP connections.

All listen on 127.0.0.1 by plain sockets, so that other processes can reach them by their port.
"""

import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ClassVar, Literal, Self

import pytest
from imapclient import IMAPClient

from accounts.connect.imap import ImapAccess
from accounts.hosts import Endpoint
from mailhub.sandbox.state import Sandbox, load_state
from tests.services import Service
from tools.providers.imap.sessions import POOL

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 10  # no test that passes waits so long
ADA, CHARLES, MIRA = "ada@lovelace.example", "charles@lovelace.example", "mira@northwind.example"
FOLDERS = ("INBOX", "Sent", "Drafts")


class SandboxServer(Service):
    """The sandbox in a process of its own; `stop()` and `start()` play a restart on the same ports."""

    name = "sandbox"

    def __init__(self) -> None:
        super().__init__()
        self._clients: dict[str, IMAPClient] = {}
        self._lock = threading.Lock()  # a server's thread may save a copy while the test looks

    def command(self) -> Sequence[str | Path]:
        return ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "mailhub.sandbox", self.folder]

    def is_ready(self) -> bool:
        state = load_state(self.folder)
        try:
            for port in (state.imap_port, state.smtp_port) if state else (0,):
                socket.create_connection(("127.0.0.1", port), timeout=SECONDS).close()
        except OSError:
            return False
        return True

    @property
    def state(self) -> Sandbox:
        state = load_state(self.folder)
        assert state is not None
        return state

    def access(self, address: str, *, imap_port: int | None = None, smtp_port: int | None = None) -> ImapAccess:
        """What connects a mailbox to it, or to something that stands in front of it or in its place."""
        state = self.state
        (password,) = (account.password for account in state.accounts if account.address == address)
        return ImapAccess(
            imap=plain(imap_port or state.imap_port),
            smtp=plain(smtp_port or state.smtp_port),
            username=address,
            password=password,
        )

    def stop(self) -> None:
        for client in self._clients.values():
            client.shutdown()
        self._clients.clear()
        super().stop()

    def signed_in(self, address: str) -> IMAPClient:
        """A kept connection that no provider knows of."""
        if address not in self._clients:
            access = self.access(address)
            client = IMAPClient("127.0.0.1", access.imap.port, ssl=False, timeout=SECONDS)
            client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.login(address, access.password)
            self._clients[address] = client
        return self._clients[address]

    def deliver(self, address: str, source: bytes, *, folder: str = "INBOX", unread: bool = True) -> None:
        with self._lock:
            self.signed_in(address).append(folder, source, () if unread else (rb"\Seen",))

    def messages(self, address: str, folder: str = "INBOX") -> list[bytes]:
        with self._lock:
            client = self.signed_in(address)
            client.select_folder(folder, readonly=True)
            rows = client.fetch(client.search(), ["BODY.PEEK[]"])
            return [rows[uid][b"BODY[]"] for uid in sorted(rows)]

    def empty(self) -> None:
        """Take all mail out of all folders."""
        for account in self.state.accounts:
            client = self.signed_in(account.address)
            for folder in FOLDERS:
                client.select_folder(folder)
                if uids := client.search():
                    client.add_flags(uids, [rb"\Deleted"], silent=True)
                    client.uid_expunge(uids)


def plain(port: int) -> Endpoint:
    return Endpoint(host="127.0.0.1", port=port, security="plain")


@dataclass
class _Shared:
    """The one sandbox of this test process, however many conftests take the fixture."""

    server: SandboxServer | None = None
    users: int = 0


_shared = _Shared()


@pytest.fixture(scope="session")
def sandbox_process() -> Iterator[SandboxServer]:
    """A running sandbox, started once for each test process."""
    if _shared.server is None:
        _shared.server = SandboxServer().__enter__()
    _shared.users += 1
    yield _shared.server
    _shared.users -= 1
    if not _shared.users:
        _shared.server.close()
        _shared.server = None


@pytest.fixture
def sandbox(sandbox_process: SandboxServer) -> Iterator[SandboxServer]:
    """A running sandbox without mail, and no kept session to it."""
    sandbox_process.empty()
    yield sandbox_process
    POOL.close_all()


class Listening:
    """Accepts connections on a port of its own and serves each in a thread, until the block ends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.errors: list[BaseException] = []
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closing = False

    def serve(self, sock: socket.socket) -> None:
        """One connection, from accept to end; OSError ends it."""
        raise NotImplementedError

    def cut(self) -> None:
        """End all connections there are now."""
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)  # what waits in accept() wakes up
        self.cut()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive(), "a connection did not end"
        self._listener.close()
        if error is None and self.errors:
            raise self.errors[0]

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with self._lock:
                self._open.add(sock)
            self._start(self._serve_and_close, sock)

    def _serve_and_close(self, sock: socket.socket) -> None:
        try:
            self.serve(sock)
        except OSError:
            pass  # one side is gone
        except BaseException as error:
            self.errors.append(error)
        finally:
            with self._lock:
                self._open.discard(sock)
            sock.close()


Point = Literal[
    "connect", "greeting", "ehlo", "auth", "mail", "rcpt", "data", "content", "dot", "accepted", "quit"
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """What the server took responsibility for."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes


class Hold:
    """The server waits at a point until it is released; the client waits with it."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._released = threading.Event()

    def wait(self) -> None:
        """Return when the server has got there."""
        assert self._reached.wait(SECONDS), "the server did not get there"

    def release(self) -> None:
        self._released.set()

    def stand(self) -> None:
        self._reached.set()
        assert self._released.wait(SECONDS), "nobody released the server"


@dataclass(kw_only=True)
class _Fault:
    kind: Literal["drop", "reset", "reply"]
    answer: bytes = b""
    recipient: str | None = None
    times: int | None = None


class _ConnectionEnds(OSError):
    """The server hangs up."""


class FaultySmtp(Listening):
    """An SMTP server with AUTH that accepts everything, except where a test has told it to fail.

    `ledger` is its own record of what it accepted. The points where it can fail or wait, in the order of a session:
    connect, greeting, ehlo, auth, mail, rcpt, data (before 354), content (after its first line), dot (before it is
    accepted), accepted (it stands in the ledger, the answer does not go out yet), quit.
    """

    ACCEPTED_ANSWER: ClassVar[bytes] = b"250 2.0.0 OK\r\n"

    def __init__(self, *, size_limit: int | None = None, on_accept: Callable[[Accepted], None] | None = None) -> None:
        super().__init__()
        self.ledger: list[Accepted] = []
        self.commands: list[str] = []
        self.raw_contents: list[bytes] = []  # as on the wire, dot-stuffed
        self.hang_up_after_reply = False
        self.on_accept = on_accept
        self._size_limit = size_limit
        self._faults: dict[Point, list[_Fault]] = {}
        self._holds: dict[Point, list[Hold]] = {}
        self._all_holds: list[Hold] = []

    @property
    def data_commands(self) -> int:
        return sum(command.upper() == "DATA" for command in self.commands)

    def drop(self, *, at: Point, times: int | None = 1) -> None:
        """Close the connection there: an orderly end of file for the client."""
        self._plan(at, _Fault(kind="drop", times=times))

    def reset(self, *, at: Point, times: int | None = 1) -> None:
        """Reset the connection there."""
        self._plan(at, _Fault(kind="reset", times=times))

    def reply(self, answer: str | bytes, *, at: Point, recipient: str | None = None, times: int | None = 1) -> None:
        """Give this answer there in place of the good one; bytes go out as they are. 421 ends the connection."""
        raw = answer if isinstance(answer, bytes) else f"{answer}\r\n".encode()
        self._plan(at, _Fault(kind="reply", answer=raw, recipient=recipient, times=times))

    def hold(self, *, at: Point) -> Hold:
        """Wait there once, until released."""
        hold = Hold()
        self._holds.setdefault(at, []).append(hold)
        self._all_holds.append(hold)
        return hold

    def silence(self, *, at: Point) -> Hold:
        """Say nothing there until released, then hang up."""
        self.drop(at=at)
        return self.hold(at=at)

    def heal(self) -> None:
        """Forget all faults."""
        self._faults.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hold in self._all_holds:
            hold.release()
        super().__exit__(kind, error, trace)

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
                        if self._answer(sock, "rcpt", b"250 2.1.5 OK\r\n", recipient=_address(rest)):
                            recipients.append(_address(rest))
                    case "DATA":
                        if self._answer(sock, "data", b"354 go ahead\r\n"):
                            content = self._content(sock, lines)
                            if self._meet(sock, "dot") is None:
                                self._accept_mail(
                                    sock, Accepted(sender=sender, recipients=tuple(recipients), content=content)
                                )
                    case "RSET" | "NOOP":
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

    def _answer(self, sock: socket.socket, point: Point, usual: bytes, *, recipient: str | None = None) -> bool:
        """Give the usual answer unless a fault stands in its place; returns whether it did."""
        if self._meet(sock, point, recipient=recipient) is not None:
            return False
        sock.sendall(usual)
        return True

    def _meet(self, sock: socket.socket, point: Point, *, recipient: str | None = None) -> bytes | None:
        """Wait and fail as planned for the point; returns the answer given in place of the usual one, if any."""
        if holds := self._holds.get(point):
            holds.pop(0).stand()
        for fault in self._faults.get(point, []):
            if fault.times == 0 or fault.recipient not in (None, recipient):
                continue
            if fault.times is not None:
                fault.times -= 1
            if fault.kind == "reset":
                # Linger for no time: close() sends a reset.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if fault.kind != "reply":
                raise _ConnectionEnds
            sock.sendall(fault.answer)
            if self.hang_up_after_reply or fault.answer.startswith(b"421"):
                raise _ConnectionEnds
            return fault.answer
        return None

    def _plan(self, at: Point, fault: _Fault) -> None:
        self._faults.setdefault(at, []).append(fault)


def _address(rest: str) -> str:
    """What stands in the angle brackets of MAIL FROM and RCPT TO."""
    return rest.partition("<")[2].partition(">")[0]


class ImapTap(Listening):
    """Stands between a client and an IMAP server, keeps the client's lines, and cuts connections on demand."""

    def __init__(self, upstream_port: int) -> None:
        super().__init__()
        self.lines: list[bytes] = []
        self.down = False
        self._cut_word = b""
        self._cuts_left = 0
        self._once_before: dict[bytes, Callable[[], None]] = {}
        self.hidden_capability = b""
        self._upstream_port = upstream_port

    def count(self, command: bytes) -> int:
        """How often a command was given, by its name after the tag or after UID."""
        return sum(command in line.split(b" ")[1:3] for line in self.lines)

    def cut_at(self, word: bytes, *, times: int) -> None:
        """A client's line that holds the word never arrives: the connection ends instead."""
        self._cut_word, self._cuts_left = word, times

    def once_before(self, word: bytes, act: Callable[[], None]) -> None:
        """Do this before the first line that holds the word is passed on."""
        self._once_before[word] = act

    def serve(self, sock: socket.socket) -> None:
        if self.down:
            return
        with socket.create_connection(("127.0.0.1", self._upstream_port), timeout=SECONDS) as upstream:
            upstream.settimeout(None)
            for end in (upstream, sock):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._bring_back, upstream, sock)
            try:
                self._bring_forth(sock, upstream)
            finally:
                for end in (upstream, sock):
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

    def _bring_forth(self, sock: socket.socket, upstream: socket.socket) -> None:
        with sock.makefile("rb") as lines:
            while line := lines.readline():
                self.lines.append(line.rstrip(b"\r\n"))
                if self._cuts_left and self._cut_word in line:
                    self._cuts_left -= 1
                    return
                for word in [word for word in self._once_before if word in line]:
                    self._once_before.pop(word)()
                upstream.sendall(line)

    def _bring_back(self, upstream: socket.socket, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := upstream.recv(65536):
                sock.sendall(piece.replace(self.hidden_capability, b"X") if self.hidden_capability else piece)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
