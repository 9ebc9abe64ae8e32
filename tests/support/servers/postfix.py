"""Postfix as a submission server: Dovecot checks the passwords, and a sink is its relay."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from tests.support.servers.certificates import Authority
from tests.support.servers.imap_service import UNPACKED
from tests.support.servers.listening import Listening
from tests.support.servers.smtp_service import (
    ACCOUNTS,
    FORBIDDEN,
    POSTDROP,
    SIZE_LIMIT,
    SmtpService,
)

MAIN = """compatibility_level = 3.7
queue_directory = {folder}/queue
data_directory = {folder}/data
meta_directory = {folder}/conf
shlib_directory = {unpacked}/usr/lib/postfix
daemon_directory = {unpacked}/usr/lib/postfix/sbin
command_directory = {unpacked}/usr/sbin
import_environment = MAIL_CONFIG POSTLOG_SERVICE POSTLOG_HOSTNAME {variables}
maillog_file = {folder}/maillog
maillog_file_prefixes = {folder}
myhostname = postfix.example
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mydestination =
alias_maps =
relayhost = [127.0.0.1]:{sink_port}
message_size_limit = {size_limit}
header_checks = regexp:{folder}/conf/header_checks
smtpd_tls_security_level = encrypt
smtpd_tls_chain_files = {folder}/certificate
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = {passwords}
smtpd_sender_login_maps = regexp:{folder}/conf/logins
smtpd_sender_restrictions = reject_sender_login_mismatch
smtpd_recipient_restrictions = check_policy_service inet:127.0.0.1:{policy_port}, permit_sasl_authenticated, reject
smtpd_relay_restrictions = permit_sasl_authenticated, reject
"""
SERVICES = """127.0.0.1:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""
OWN = "active bounce corrupt defer deferred flush hold incoming private saved trace".split()
SHARED = ("public", "maildrop")


class Policy(Listening):
    """A policy service, such as one for greylisting: it answers for each recipient."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, str] = {}

    def serve(self, sock: socket.socket) -> None:
        asked: dict[str, str] = {}
        with sock.makefile("r") as lines:
            for line in lines:
                name, given, value = line.rstrip("\n").partition("=")
                if given:
                    asked[name] = value
                else:
                    action = self.answers.get(asked["recipient"], "DUNNO")
                    sock.sendall(f"action={action}\n\n".encode())


class Postfix(SmtpService):
    """A Postfix only for tests."""

    name = "postfix"

    def __init__(self, sink_port: int, authority: Authority, passwords: Path) -> None:
        super().__init__(sink_port, authority, passwords)
        self._policy = Policy()

    def prepare(self) -> None:
        super().prepare()
        self._policy.__enter__()
        (self.folder / "conf").mkdir()
        (self.folder / "conf/main.cf").write_text(
            MAIN.format(
                folder=self.folder,
                unpacked=UNPACKED,
                variables=" ".join(self.environment()),
                sink_port=self.sink_port,
                policy_port=self._policy.port,
                passwords=self._passwords,
                size_limit=SIZE_LIMIT,
            )
        )
        (self.folder / "conf/master.cf").write_text(SERVICES.format(port=self.port))
        (self.folder / "conf/header_checks").write_text(f"/^Subject: {FORBIDDEN}/ REJECT\n")
        (self.folder / "conf/logins").write_text("/^(.*)$/ ${1}\n")
        for name in ("data", "queue/pid", *(f"queue/{each}" for each in (*OWN, *SHARED))):
            (self.folder / name).mkdir(parents=True)
        self.let_read()
        for name in ("data", *(f"queue/{each}" for each in OWN)):
            os.chown(self.folder / name, ACCOUNTS["postfix"], 0)
        for name in SHARED:
            os.chown(self.folder / "queue" / name, ACCOUNTS["postfix"], POSTDROP)
            (self.folder / "queue" / name).chmod(0o730)

    def command(self) -> Sequence[str | Path]:
        given = [f"{name}={value}" for name, value in self.environment().items()]
        master = UNPACKED / "usr/lib/postfix/sbin/master"
        return ["env", *given, master, "-c", self.folder / "conf", "-d"]

    def close(self) -> None:
        super().close()
        self._policy.__exit__(None, None, None)

    def answer(self, address: str, answer: str) -> None:
        self._policy.answers[address] = answer

    def heal(self) -> None:
        self._policy.answers.clear()

    def log(self) -> str:
        path = self.folder / "maillog"
        return super().log() + (path.read_text(errors="replace") if path.exists() else "")
