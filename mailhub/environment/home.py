"""The home of an installation: its folder, its env file, and the keys of the first start."""

import fcntl
import os
import stat
import sys
from pathlib import Path

KEY_BYTES = 32  # AES-256


def env_file(home: Path) -> Path:
    """Return the file with the values that every command on this home must share."""
    return home / "mailhub.env"


def lock_home(home: Path) -> None:
    """Lock the home until this process ends: a second one would overwrite its address."""
    lock = os.open(home / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(
            f"mailhub cannot start: another one runs on {home}. End it, or choose another home with MAILHUB_HOME=…"
        )


def close_to_others(home: Path) -> None:
    """Let only this user read mailhub's files, also those that an older version left readable."""
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
        except OSError:  # the file was deleted, or its file system has no modes
            continue


def process_name(arguments: list[str]) -> str:
    """Return what the process is, for the list of connections: such as `mailhub worker`."""
    program, command = Path(arguments[0]).name, [*arguments[1:2], ""][0]
    return f"mailhub {command if program == 'manage.py' else program}".strip()[:63]
