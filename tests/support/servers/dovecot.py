"""Dovecot as an ordinary process with its own configuration: Maildir, special-use folders, UIDPLUS,
MOVE, CONDSTORE.
"""

import os
import pwd
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.servers.imap_service import PASSWORD, ImapService, mail_account

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
service auth {{
  unix_listener {folder}/passwords {{
    mode = 0666
  }}
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


POOR_NAMESPACE = "  prefix = INBOX.\n  separator = .\n"
ACCESS_LISTS = """
protocol imap {
  mail_plugins = acl
}
plugin {
  acl = vfile
}
"""
POOR = f"{ACCESS_LISTS}imap_capability = IMAP4rev1 LITERAL+ NAMESPACE\n"
# Debian and Homebrew keep it in sbin, which is not on every PATH.
PLACES = os.pathsep.join(
    (os.environ.get("PATH", ""), "/usr/sbin", "/opt/homebrew/sbin", "/usr/local/sbin")
)


class Dovecot(ImapService):
    """A Dovecot only for tests; any address may sign in with the one password."""

    name = "dovecot"
    separator = "."

    def __init__(self, *, namespace: str = ROLES, more: str = "") -> None:
        """Take the settings of the namespace, and further settings."""
        super().__init__()
        self._namespace, self._more = namespace, more

    def prepare(self) -> None:
        me = pwd.getpwuid(os.getuid())
        mail = mail_account()
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

    def allow(self, address: str, folder: str, rights: str) -> None:
        """Give the owner of a mailbox only these rights in a folder directly under the namespace."""
        self.signed_in(address).select_folder(folder)  # the server makes it at the first use
        place = self.folder / "mail" / address / f".{folder.removeprefix('INBOX.')}" / "dovecot-acl"
        place.write_text(f"{rights}\n")
        place.chmod(0o644)


@pytest.fixture(scope="session")
def dovecot() -> Iterator[Dovecot]:
    """Yield one Dovecot for a test process; each test uses its own addresses."""
    with Dovecot() as server:
        yield server


@pytest.fixture(scope="session")
def poor_dovecot() -> Iterator[Dovecot]:
    """Yield a Dovecot without SPECIAL-USE, MOVE and UIDPLUS; its folders are under `INBOX.`."""
    with Dovecot(namespace=POOR_NAMESPACE, more=POOR) as server:
        yield server
