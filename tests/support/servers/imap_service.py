"""An IMAP server of somebody else, as a private process: any address may sign in with one password."""

import contextlib
import os
import pwd
import socket
from pathlib import Path

import pytest
from imapclient import IMAPClient

from accounts.connect.imap import ImapAccess
from accounts.infra.safe_hosts import Endpoint
from tests.support.servers.services import Service

PASSWORD = "only-for-tests"
# Debian's packages of servers that cannot be installed beside another, as bin/unpack-servers leaves them.
UNPACKED = Path(__file__).resolve().parents[3] / ".servers"
LIBRARIES = ":".join(
    str(UNPACKED / place)
    for place in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib")
)


def skip_without_packages() -> None:
    if not (UNPACKED / "complete").exists():
        pytest.skip("bin/unpack-servers has unpacked no server here")


def mail_account() -> pwd.struct_passwd:
    """Return the account that owns the mail: servers refuse to serve root's."""
    me = pwd.getpwuid(os.getuid())
    return pwd.getpwnam("nobody") if me.pw_uid == 0 else me


class ImapService(Service):
    """One IMAP server, and the mail programs of its people."""

    separator = "/"

    def __init__(self) -> None:
        super().__init__()
        self._clients: dict[str, IMAPClient] = {}

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as sock:
                return sock.recv(4) == b"* OK"
        except OSError:
            return False

    def access(self, address: str, *, smtp_port: int = 1) -> ImapAccess:
        return ImapAccess(
            imap=Endpoint(host="127.0.0.1", port=self.port, security="plain"),
            smtp=Endpoint(host="127.0.0.1", port=smtp_port, security="plain"),
            username=address,
            password=PASSWORD,
        )

    def signed_in(self, address: str) -> IMAPClient:
        """Return a kept connection that no provider knows of: the person's own mail program."""
        if address not in self._clients:
            self._clients[address] = self.connect(address)
        return self._clients[address]

    def connect(self, address: str) -> IMAPClient:
        """Return a new connection, signed in, that does not wait for acknowledgements."""
        client = IMAPClient("127.0.0.1", self.port, ssl=False)
        client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.login(address, PASSWORD)
        return client

    def deliver(
        self, address: str, source: bytes, *, folder: str = "INBOX", unread: bool = True
    ) -> None:
        self.signed_in(address).append(folder, source, flags=() if unread else (rb"\Seen",))

    def messages(self, address: str, folder: str = "INBOX") -> list[bytes]:
        client = self.signed_in(address)
        client.select_folder(folder)
        rows = client.fetch(client.search(["ALL"]), ["BODY.PEEK[]"])
        return [rows[uid][b"BODY[]"] for uid in sorted(rows)]

    def sign_out(self) -> None:
        """Close the kept connections: servers allow a hundred or so."""
        for client in self._clients.values():
            with contextlib.suppress(OSError, IMAPClient.Error):
                client.shutdown()
        self._clients.clear()

    def stop(self) -> None:
        self.sign_out()
        super().stop()
