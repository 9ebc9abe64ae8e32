"""Exim as a submission server: its plaintext authenticator knows the one password, and a sink is its route."""

import os
from collections.abc import Sequence
from pathlib import Path

from tests.support.servers.imap_service import PASSWORD, UNPACKED
from tests.support.servers.smtp_service import ACCOUNTS, FORBIDDEN, SIZE_LIMIT, SmtpService

CONFIG = """exim_path = {unpacked}/usr/sbin/exim4
keep_environment = {variables}
spool_directory = {folder}/spool
log_file_path = {folder}/spool/%slog
pid_file_path = {folder}/spool/pid
# Without it a delivery starts the program again, which forgets its libraries.
deliver_drop_privilege
primary_hostname = exim.example
local_interfaces = 127.0.0.1
daemon_smtp_ports = {port}
message_size_limit = {size_limit}
tls_advertise_hosts = *
tls_certificate = {folder}/certificate
auth_advertise_hosts = ${{if eq{{$tls_in_cipher}}{{}}{{}}{{*}}}}
smtputf8_advertise_hosts = *
host_lookup =
rfc1413_hosts =
acl_smtp_mail = mail
acl_smtp_rcpt = rcpt
acl_smtp_data = data
ANSWER = ${{lookup{{$local_part@$domain}}lsearch{{{folder}/answers}}}}

begin acl
mail:
  deny !authenticated = *
  deny condition = ${{if !eqi{{$sender_address}}{{$authenticated_id}}}}
       message = $sender_address is not the address of this account
  accept
rcpt:
  defer condition = ${{if match{{ANSWER}}{{^4}}}}
        message = ANSWER
  deny condition = ${{if match{{ANSWER}}{{^5}}}}
       message = ANSWER
  accept
data:
  deny condition = ${{if match{{$h_subject:}}{{^{forbidden}}}}}
  accept

begin routers
sink:
  driver = manualroute
  route_list = * 127.0.0.1::{sink_port}
  transport = sink
  self = send

begin transports
sink:
  driver = smtp
  allow_localhost
  hosts_avoid_tls = *

begin retry
* * F,1h,1m

begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${{if eq{{$auth3}}{{{password}}}}}
  server_set_id = $auth2
login:
  driver = plaintext
  public_name = LOGIN
  server_prompts = <| Username: | Password:
  server_condition = ${{if eq{{$auth2}}{{{password}}}}}
  server_set_id = $auth1
"""


class Exim(SmtpService):
    """An Exim only for tests."""

    name = "exim"

    def prepare(self) -> None:
        super().prepare()
        (self.folder / "exim.conf").write_text(
            CONFIG.format(
                folder=self.folder,
                unpacked=UNPACKED,
                variables=" : ".join(self.environment()),
                port=self.port,
                sink_port=self.sink_port,
                size_limit=SIZE_LIMIT,
                forbidden=FORBIDDEN,
                password=PASSWORD,
            )
        )
        (self.folder / "answers").touch()
        (self.folder / "spool").mkdir()
        self.let_read()
        os.chown(self.folder / "spool", ACCOUNTS["Debian-exim"], ACCOUNTS["Debian-exim"])

    def command(self) -> Sequence[str | Path]:
        given = [f"{name}={value}" for name, value in self.environment().items()]
        program = UNPACKED / "usr/sbin/exim4"
        return ["env", *given, program, "-bdf", "-q1m", "-C", self.folder / "exim.conf"]

    def answer(self, address: str, answer: str) -> None:
        (self.folder / "answers").write_text(f"{address}: {answer}\n")

    def heal(self) -> None:
        (self.folder / "answers").write_text("")

    def log(self) -> str:
        logs = sorted((self.folder / "spool").glob("*[nct]log"))
        return super().log() + "".join(path.read_text(errors="replace") for path in logs)
