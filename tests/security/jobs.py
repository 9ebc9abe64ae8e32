"""Jobs that misbehave as a parser with malicious content could.

They run in the limited processes.
"""

import os
import socket
import time
from pathlib import Path

kept: list[bytes] = []


def spin(seconds: float) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return "done"


def rest(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


def allocate(size: int) -> int:
    return len(bytearray(size))


def keep(size: int) -> int:
    kept.append(b"x" * size)
    return len(kept)


def crash() -> None:
    os.abort()


def lie() -> int:
    return "not a number"  # type: ignore[return-value]


def fail() -> str:
    raise RecursionError


def surroundings() -> dict[str, str]:
    """Return the resources that a hijacked process could reach."""
    return {
        "environment": ",".join(os.environ),
        "network": _said(lambda: socket.create_connection(("127.0.0.1", 9), timeout=1)),
        "file": _said(lambda: Path("/tmp/mailhub-parser").write_bytes(b"x")),
        "process": _said(_fork),
        "descriptors": str(len(list(Path("/proc/self/fd").iterdir()))),
    }


def interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def pid() -> int:
    return os.getpid()


def _fork() -> None:
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        os._exit(0)


def _said(action: object) -> str:
    assert callable(action)
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "allowed"
