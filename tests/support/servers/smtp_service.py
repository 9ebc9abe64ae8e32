"""A mail server of somebody else that takes mail from its people and passes it on to a sink.

It signs in over STARTTLS only, takes mail only under the address of the sign-in, and answers for
some recipients as a test says. Its own accounts exist for its processes only.
"""

import os
import socket
from pathlib import Path

import pytest

from accounts.infra.safe_hosts import Endpoint
from tests.support.servers.certificates import Authority
from tests.support.servers.imap_service import LIBRARIES, UNPACKED, skip_without_packages
from tests.support.servers.services import Service

SIZE_LIMIT = 200_000
FORBIDDEN = "Forbidden"  # a mail with this word in its subject is refused after its content
# The accounts of Debian's packages: users, each with a group, and the group of Postfix.
ACCOUNTS = {"postfix": 64_990, "Debian-exim": 64_992}
POSTDROP = 64_991


def skip_without_senders() -> None:
    skip_without_packages()
    if os.geteuid() != 0:
        pytest.skip("Postfix and Exim start as root only")


class SmtpService(Service):
    """One server between mailhub and a sink."""

    def __init__(self, sink_port: int, authority: Authority, passwords: Path) -> None:
        """Take the port of the sink, and the socket of Dovecot that checks passwords."""
        super().__init__()
        self.sink_port, self._authority, self._passwords = sink_port, authority, passwords

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(host="127.0.0.1", port=self.port, security="starttls")

    def prepare(self) -> None:
        users = "".join(f"{name}:x:{number}:{number}::/:\n" for name, number in ACCOUNTS.items())
        groups = "".join(f"{name}:x:{number}:\n" for name, number in ACCOUNTS.items())
        (self.folder / "passwd").write_text(Path("/etc/passwd").read_text() + users)
        (self.folder / "group").write_text(
            Path("/etc/group").read_text() + groups + f"postdrop:x:{POSTDROP}:\n"
        )
        (self.folder / "certificate").write_bytes(
            self._authority.server_file("127.0.0.1").read_bytes()
        )

    def let_read(self) -> None:
        """Let the server's accounts read what is in its folder now."""
        for path in (self.folder, *self.folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)

    def environment(self) -> dict[str, str]:
        """Return the variables with which each process finds its libraries and accounts."""
        return {
            "LD_LIBRARY_PATH": f"{UNPACKED}/usr/lib/postfix:{LIBRARIES}",
            "LD_PRELOAD": "libnss_wrapper.so",
            "NSS_WRAPPER_PASSWD": f"{self.folder}/passwd",
            "NSS_WRAPPER_GROUP": f"{self.folder}/group",
        }

    def answer(self, address: str, answer: str) -> None:
        """Give this answer to each recipient of the address."""
        raise NotImplementedError

    def heal(self) -> None:
        """Take every recipient again."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as sock:
                return sock.recv(4) == b"220 "
        except OSError:
            return False
