"""The process that parses foreign content.

It has no secrets, no network, and limits on everything it uses. `tools.mail.parsers.pool` starts it
as `python -I child.py MEMORY SECONDS MODULE...`; standard input is a socket.
"""

import contextlib
import ctypes
import importlib
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter

HEAD = struct.Struct(">cQ")  # the way in which a job ended, and the length of the answer
SAID, NO_MEMORY, FAILED = b"+", b"m", b"-"
READY = b"."
IDLE_SECONDS = 300.0
WAITING_SECONDS = 8.0  # for a processor, during a job
GROWN_BYTES = 200 * 1024**2  # a process that keeps more than this is replaced
OPEN_FILES = 32
KINDNESS = 5  # the niceness: other processes go first when the processor is busy
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38


@lru_cache(maxsize=64)
def arguments_of(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Return an adapter that writes a tuple of arguments of this function as JSON, and reads and
    checks it.
    """
    hints = get_type_hints(function)
    return _adapter(*(hints[name] for name in signature(function).parameters))


@lru_cache(maxsize=64)
def result_of(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Return an adapter that writes the result of this function, in a tuple, as JSON, and reads and
    checks it.
    """
    return _adapter(get_type_hints(function)["return"])


def _adapter(*types: Any) -> TypeAdapter[Any]:
    # A tuple around them, because a dataclass takes no configuration from outside.
    wrapped: Any = tuple
    return TypeAdapter(
        wrapped[types], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    )


def confine(memory: int) -> None:
    """Give up the rights that parsing does not need.

    If a kernel refuses one step, the other limits still apply.
    """
    os.nice(KINDNESS)
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (value, value))
    with contextlib.suppress(OSError, AttributeError):
        system = ctypes.CDLL(None)
        system.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        system.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        system.unshare(CLONE_NEWUSER | CLONE_NEWNET)  # its own network, with no interface up


def main() -> None:
    memory, seconds, *modules = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent and its socket
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent.parent))
    for module in modules:
        importlib.import_module(module)
    confine(int(memory))
    with socket.socket(fileno=0) as parent:
        parent.sendall(READY)
        parent.settimeout(IDLE_SECONDS)
        with contextlib.suppress(TimeoutError, ConnectionError, EOFError):
            while _serve(parent, float(seconds)):
                pass


def _serve(parent: socket.socket, seconds: float) -> bool:
    _, size = HEAD.unpack(_receive(parent, HEAD.size))
    job = _receive(parent, size)
    # A job is limited by processor time: on a busy machine harmless content takes longer, but costs
    # the same.
    signal.setitimer(signal.ITIMER_PROF, seconds)
    # If the parent is gone, no other process ends a job that hangs.
    signal.setitimer(signal.ITIMER_REAL, seconds + WAITING_SECONDS + 1)
    sort, answer = _run_job(job)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    parent.sendall(HEAD.pack(sort, len(answer)) + answer)
    return _memory_in_use() < GROWN_BYTES


def _memory_in_use() -> int:
    # Not ru_maxrss: a new process starts with its parent's value.
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def _run_job(job: bytes) -> tuple[bytes, bytes]:
    try:
        name, _, arguments = job.partition(b"\n")
        module, function_name = name.decode().split(":")
        function = getattr(importlib.import_module(module), function_name)
        return SAID, result_of(function).dump_json(
            (function(*arguments_of(function).validate_json(arguments)),)
        )
    except MemoryError:
        return NO_MEMORY, b""
    except BaseException:  # a parser may raise anything on hostile content
        return FAILED, b""


def _receive(parent: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        piece = parent.recv(min(size - len(content), 1 << 20))
        if not piece:
            raise EOFError
        content += piece
    return bytes(content)


if __name__ == "__main__":
    main()
