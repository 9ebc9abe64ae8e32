"""Mail servers for tests: the sandbox as a process, a tap on IMAP connections."""

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from imapclient import IMAPClient

from accounts.connect.imap import ImapAccess
from accounts.infra.safe_hosts import Endpoint
from mailhub.sandbox.state import Sandbox, directory, first_state, load_state, save_state
from tests.support.servers.listening import SECONDS, Listening
from tests.support.servers.services import Service, free_port
from tools.providers.imap.sessions import POOL

ROOT = Path(__file__).resolve().parents[3]
ADA, CHARLES, MIRA = "ada@lovelace.example", "charles@lovelace.example", "mira@northwind.example"
FOLDERS = ("INBOX", "Sent", "Drafts")


class SandboxServer(Service):
    """The sandbox in its own process; `stop()` and `start()` simulate a restart on the same
    ports.
    """

    name = "sandbox"

    def __init__(self) -> None:
        super().__init__()
        self._clients: dict[str, IMAPClient] = {}
        self._lock = threading.Lock()  # a server's thread may save a copy while the test reads

    def prepare(self) -> None:
        reserve_ports(self.folder)

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

    def access(
        self, address: str, *, imap_port: int | None = None, smtp_port: int | None = None
    ) -> ImapAccess:
        """Return the access of a mailbox to it, or to a proxy or a replacement on other ports."""
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
        """Return a kept connection that no provider knows of."""
        if address not in self._clients:
            access = self.access(address)
            client = IMAPClient("127.0.0.1", access.imap.port, ssl=False, timeout=SECONDS)
            client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.login(address, access.password)
            self._clients[address] = client
        return self._clients[address]

    def deliver(
        self, address: str, source: bytes, *, folder: str = "INBOX", unread: bool = True
    ) -> None:
        with self._lock:
            self.signed_in(address).append(folder, source, () if unread else (rb"\Seen",))

    def messages(self, address: str, folder: str = "INBOX") -> list[bytes]:
        with self._lock:
            client = self.signed_in(address)
            client.select_folder(folder, readonly=True)
            rows = client.fetch(client.search(), ["BODY.PEEK[]"])
            return [rows[uid][b"BODY[]"] for uid in sorted(rows)]

    def empty(self) -> None:
        """Delete all mail in all folders."""
        for account in self.state.accounts:
            client = self.signed_in(account.address)
            for folder in FOLDERS:
                client.select_folder(folder)
                if uids := client.search():
                    client.add_flags(uids, [rb"\Deleted"], silent=True)
                    client.uid_expunge(uids)


def reserve_ports(home: Path) -> None:
    """Let the first sandbox of this home use ports that nobody takes while it restarts."""
    state = replace(first_state("127.0.0.1"), imap_port=free_port(), smtp_port=free_port())
    directory(home).mkdir(mode=0o700, parents=True)
    save_state(home, state)


def plain(port: int) -> Endpoint:
    return Endpoint(host="127.0.0.1", port=port, security="plain")


@pytest.fixture(scope="session")
def sandbox_process() -> Iterator[SandboxServer]:
    """Yield a running sandbox, started once for each test process."""
    with SandboxServer() as server:
        yield server


@pytest.fixture
def sandbox(sandbox_process: SandboxServer) -> Iterator[SandboxServer]:
    """Yield a running sandbox without mail, and close all kept sessions."""
    sandbox_process.empty()
    yield sandbox_process
    POOL.close_all()


class ImapTap(Listening):
    """A proxy in front of an IMAP server that records the client's lines and cuts connections on
    demand.
    """

    def __init__(self, upstream_port: int) -> None:
        super().__init__()
        self.lines: list[bytes] = []
        self.down = False
        self._cut_word = b""
        self._cuts_left = 0
        self._once_before: dict[bytes, Callable[[], None]] = {}
        self._refused: dict[bytes, bytes] = {}
        self.hidden_capability = b""
        self.finds_everything = False  # every search is passed on as one for all messages
        self._upstream_port = upstream_port

    def count(self, command: bytes) -> int:
        """Return how often a command was given, by its name after the tag or after UID."""
        return sum(command in line.split(b" ")[1:3] for line in self.lines)

    def cut_at(self, word: bytes, *, times: int) -> None:
        """Cut the connection instead of passing on a client's line that holds the word."""
        self._cut_word, self._cuts_left = word, times

    def refuse(self, word: bytes, said: bytes = b"") -> None:
        """Answer the next line that holds the word with NO, and do not pass it on."""
        self._refused[word] = said

    def once_before(self, word: bytes, act: Callable[[], None]) -> None:
        """Do this before the first line that holds the word is passed on."""
        self._once_before[word] = act

    def serve(self, sock: socket.socket) -> None:
        if self.down:
            return
        with socket.create_connection(
            ("127.0.0.1", self._upstream_port), timeout=SECONDS
        ) as upstream:
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
                if self.finds_everything and b" SEARCH " in line:
                    line = line.partition(b" SEARCH ")[0] + b" SEARCH ALL\r\n"
                if self._cuts_left and self._cut_word in line:
                    self._cuts_left -= 1
                    return
                for word in [word for word in self._once_before if word in line]:
                    self._once_before.pop(word)()
                if word := next((word for word in self._refused if word in line), b""):
                    sock.sendall(
                        line.split(b" ")[0] + b" NO " + self._refused.pop(word) + b" Not now\r\n"
                    )
                else:
                    upstream.sendall(line)

    def _bring_back(self, upstream: socket.socket, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := upstream.recv(65536):
                sock.sendall(
                    piece.replace(self.hidden_capability, b"X") if self.hidden_capability else piece
                )
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
