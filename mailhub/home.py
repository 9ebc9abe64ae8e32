"""The home of an installation: its folder, its env file and the keys that are made at the first start."""

import base64
import fcntl
import os
import secrets
import stat
import sys
from pathlib import Path

from mailhub.endpoints import mail_settings as mail_settings

KEY_BYTES = 32  # AES-256


def env_file(home: Path) -> Path:
    """The file in which `manage.py run` keeps what every command on this home must share."""
    return home / "mailhub.env"


def only_one(home: Path) -> None:
    """Hold the home until this process ends: a second one would write its own address over the
    first one's.
    """
    lock = os.open(home / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"mailhub cannot start: another one runs on {home}")


def new_key() -> str:
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def close_to_others(home: Path) -> None:
    """Let only this user read what mailhub makes, also the files that an older version left
    readable in the home.
    """
    os.umask(0o077)
    for path in [*home.glob("*"), *home.glob("*/*")]:
        try:
            found = path.lstat()
            if (
                found.st_uid == os.geteuid()
                and found.st_mode & 0o077
                and stat.S_ISREG(found.st_mode)
            ):
                path.chmod(found.st_mode & 0o700)
            elif (
                found.st_uid != os.geteuid()
                and found.st_mode & 0o007
                and stat.S_ISREG(found.st_mode)
            ):
                sys.stderr.write(
                    f"mailhub: other users can read {path}. Close it with chmod o-rwx.\n"
                )
        except OSError:  # gone since, or of a file system without modes
            continue
