"""Dovecot as an ordinary process with its own configuration: Maildir, special-use folders, UIDPLUS,
MOVE, CONDSTORE.
"""

import contextlib
import os
import pwd
import shutil
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from imapclient import IMAPClient

from accounts.connect.imap import ImapAccess
from accounts.infra.safe_hosts import Endpoint
from tests.support.servers.services import Service

PASSWORD = "only-for-tests"

CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/run
instance_name = mailhub-tests-{port}
log_path = /dev/stderr
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {login_user}
mail_location = maildir:{folder}/mail/%u
mail_fsync = never
first_valid_uid = 0
mail_max_userip_connections = 100
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/home/%u
}}
namespace inbox {{
  inbox = yes
{namespace}}}
{more}"""

ROLES = """  mailbox Drafts {
    special_use = \\Drafts
    auto = subscribe
  }
  mailbox "Sent Messages" {
    special_use = \\Sent
    auto = subscribe
  }
  mailbox Archive {
    special_use = \\Archive
    auto = subscribe
  }
  mailbox Trash {
    special_use = \\Trash
    auto = subscribe
  }
"""


# Debian and Homebrew keep it in sbin, which is not on every PATH.
PLACES = os.pathsep.join(
    (os.environ.get("PATH", ""), "/usr/sbin", "/opt/homebrew/sbin", "/usr/local/sbin")
)


class Dovecot(Service):
    """A Dovecot only for tests; any address may sign in with the one password."""

    name = "dovecot"

    def __init__(self, *, namespace: str = ROLES, more: str = "") -> None:
        """Take the settings of the namespace, and further settings."""
        super().__init__()
        self._namespace, self._more = namespace, more
        self._clients: dict[str, IMAPClient] = {}

    def prepare(self) -> None:
        me = pwd.getpwuid(os.getuid())
        mail = pwd.getpwnam("nobody") if me.pw_uid == 0 else me
        for name in ("mail", "home"):
            path = self.folder / name
            path.mkdir()
            os.chown(path, mail.pw_uid, mail.pw_gid)
        self.folder.chmod(0o755)
        (self.folder / "dovecot.conf").write_text(
            CONFIG.format(
                folder=self.folder,
                namespace=self._namespace,
                more=self._more,
                port=self.port,
                password=PASSWORD,
                uid=mail.pw_uid,
                gid=mail.pw_gid,
                user="dovecot" if me.pw_uid == 0 else me.pw_name,
                group="dovecot" if me.pw_uid == 0 else me.pw_name,
                login_user="dovenull" if me.pw_uid == 0 else me.pw_name,
            )
        )

    def command(self) -> Sequence[str | Path]:
        return [
            shutil.which("dovecot", path=PLACES) or "dovecot",
            "-F",
            "-c",
            self.folder / "dovecot.conf",
        ]

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

    def stop(self) -> None:
        for client in self._clients.values():
            with contextlib.suppress(OSError, IMAPClient.Error):
                client.shutdown()
        self._clients.clear()
        super().stop()


@pytest.fixture(scope="session")
def dovecot() -> Iterator[Dovecot]:
    """Yield one Dovecot for a test process; each test uses its own addresses."""
    with Dovecot() as server:
        yield server
