"""Courier IMAP behind a sign-in of our own, because its own needs a daemon at a fixed place.

Courier's `imapd` takes over the connection after LOGIN, as from its own program for the sign-in.

    python -m tests.support.servers.courier PORT FOLDER
"""

import os
import shlex
import socketserver
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.servers.imap_service import (
    LIBRARIES,
    PASSWORD,
    UNPACKED,
    ImapService,
    mail_account,
    skip_without_packages,
)

# Debian's default, in its /etc/courier/imapd.
OFFERS = (
    "IMAP4rev1 UIDPLUS CHILDREN NAMESPACE THREAD=ORDEREDSUBJECT THREAD=REFERENCES SORT QUOTA IDLE"
)
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LD_LIBRARY_PATH": LIBRARIES,
    "IMAP_CAPABILITY": OFFERS,
    "IMAP_KEYWORDS": "1",
    "IMAP_ACL": "1",
    "IMAP_USELOCKS": "1",
    "IMAP_ENHANCEDIDLE": "0",
    "TCPREMOTEIP": "127.0.0.1",
    "TCPREMOTEPORT": "1",
    "PROTOCOL": "IMAP",
}


class Courier(ImapService):
    """A Courier only for tests."""

    name = "courier"
    separator = "."

    def prepare(self) -> None:
        (self.folder / "mail").mkdir()
        for path in (self.folder, self.folder / "mail"):
            path.chmod(0o755)

    def command(self) -> Sequence[str | Path]:
        root = UNPACKED.parent
        return [
            "env",
            f"PYTHONPATH={root}",
            sys.executable,
            "-m",
            __name__,
            str(self.port),
            self.folder,
        ]


class SignIn(socketserver.StreamRequestHandler):
    """One connection: the lines before the sign-in, then Courier."""

    rbufsize = 0  # Courier reads what follows LOGIN

    def handle(self) -> None:
        self.wfile.write(f"* OK [CAPABILITY {OFFERS}] Courier-IMAP ready.\r\n".encode())
        while line := self._read_line():
            tag, command, *rest = shlex.split(line.decode())
            match command.upper():
                case "LOGIN" if rest[1] == PASSWORD:
                    self._hand_over(tag, rest[0])
                    return
                case "LOGIN":
                    answer = f"{tag} NO Login failed."
                case "CAPABILITY":
                    answer = f"* CAPABILITY {OFFERS}\r\n{tag} OK done"
                case "LOGOUT":
                    return
                case _:
                    answer = f"{tag} BAD Sign in first."
            self.wfile.write(answer.encode() + b"\r\n")

    def _read_line(self) -> bytes:
        try:
            return self.rfile.readline()
        except ConnectionResetError:
            return b""

    def _hand_over(self, tag: str, address: str) -> None:
        home = Path(sys.argv[2]) / "mail" / address
        owner = mail_account()
        if not home.exists():
            home.mkdir()
            os.chown(home, owner.pw_uid, owner.pw_gid)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(owner.pw_gid)
            os.setuid(owner.pw_uid)
        os.chdir(home)
        if not Path("Maildir").exists():
            make = UNPACKED / "usr/bin/maildirmake.courier"
            subprocess.run([make, "Maildir"], env=ENVIRONMENT, check=True)
        for number in (0, 1):
            os.dup2(self.connection.fileno(), number)
        mine = {"AUTHENTICATED": address, "IMAPLOGINTAG": tag, "HOME": str(home)}
        os.execve(UNPACKED / "usr/bin/imapd", ["imapd", "Maildir"], {**ENVIRONMENT, **mine})


class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    max_children = 200


def watch_files() -> None:
    """Start the daemon that Courier asks about changed files; without it each sign-in takes a second."""
    daemon = UNPACKED / "usr/libexec/gam_server"
    command: list[str | Path] = ["setpriv", "--pdeathsig", "TERM", "--", daemon]
    subprocess.Popen(
        [*command, "--notimeout", sys.argv[1]], user=mail_account().pw_uid, env=ENVIRONMENT
    )


@pytest.fixture(scope="session")
def courier() -> Iterator[Courier]:
    skip_without_packages()
    with Courier() as server:
        yield server


if __name__ == "__main__":
    ENVIRONMENT["GAM_CLIENT_ID"] = sys.argv[1]  # a daemon of our own
    watch_files()
    with Server(("127.0.0.1", int(sys.argv[1])), SignIn) as server:
        server.serve_forever()
