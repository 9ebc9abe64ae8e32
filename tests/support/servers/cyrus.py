"""Cyrus IMAP with its own configuration. It creates a mailbox at the first sign-in, with the inbox only."""

import grp
import os
import socket
import struct
import threading
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

CONFIG = """configdirectory: {folder}/conf
defaultpartition: default
partition-default: {folder}/spool
allowplaintext: yes
sasl_pwcheck_method: saslauthd
sasl_saslauthd_path: {folder}/passwords
sasl_mech_list: PLAIN
virtdomains: userid
defaultdomain: internal
unixhierarchysep: yes
altnamespace: no
autocreate_quota: 0
cyrus_user: {user}
cyrus_group: {group}
proc_path: {folder}/proc
mboxname_lockpath: {folder}/lock
"""
SERVICES = """START {{
}}
SERVICES {{
  imap cmd="{imapd} -C {folder}/imapd.conf" listen="127.0.0.1:{port}" prefork=0
}}
EVENTS {{
}}
"""


class Cyrus(ImapService):
    """A Cyrus only for tests."""

    name = "cyrus"

    def __init__(self) -> None:
        super().__init__()
        self._owner = mail_account()
        if os.geteuid() == 0:
            self.account = self._owner
        self._passwords: socket.socket | None = None

    def prepare(self) -> None:
        for name in (".", "conf", "spool", "proc", "lock"):
            (self.folder / name).mkdir(exist_ok=True)
            os.chown(self.folder / name, self._owner.pw_uid, self._owner.pw_gid)
        group = grp.getgrgid(self._owner.pw_gid).gr_name
        (self.folder / "imapd.conf").write_text(
            CONFIG.format(folder=self.folder, user=self._owner.pw_name, group=group)
        )
        (self.folder / "cyrus.conf").write_text(
            SERVICES.format(
                folder=self.folder, port=self.port, imapd=UNPACKED / "usr/lib/cyrus/bin/imapd"
            )
        )
        for name in ("imapd.conf", "cyrus.conf"):
            (self.folder / name).chmod(0o644)
        self._passwords = socket.socket(socket.AF_UNIX)
        self._passwords.bind(str(self.folder / "passwords"))
        (self.folder / "passwords").chmod(0o777)
        self._passwords.listen()
        threading.Thread(target=self._answer, args=(self._passwords,), daemon=True).start()

    def command(self) -> Sequence[str | Path]:
        return [
            "env",
            f"LD_LIBRARY_PATH={LIBRARIES}",
            UNPACKED / "usr/sbin/cyrmaster",
            "-C",
            self.folder / "imapd.conf",
            "-M",
            self.folder / "cyrus.conf",
            "-p",
            self.folder / "pid",
            "-D",
        ]

    def close(self) -> None:
        super().close()
        if self._passwords is not None:
            self._passwords.close()

    @staticmethod
    def _answer(listening: socket.socket) -> None:
        """Say whether a password is right, as saslauthd does: user, password, service, realm."""
        while True:
            try:
                asking, _ = listening.accept()
            except OSError:
                return
            with asking, asking.makefile("rb") as stream:
                given = [stream.read(*struct.unpack("!H", stream.read(2))) for _ in range(4)]
                verdict = b"OK" if given[1] == PASSWORD.encode() else b"NO"
                asking.sendall(struct.pack("!H", len(verdict)) + verdict)


@pytest.fixture(scope="session")
def cyrus() -> Iterator[Cyrus]:
    skip_without_packages()
    with Cyrus() as server:
        yield server
