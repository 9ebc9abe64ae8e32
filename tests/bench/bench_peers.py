"""mailhub beside another mail server for agents: the same calls on the same Dovecot mailbox, through
the same client over stdio.

The other server is installed from PyPI into a virtual environment in the user's cache; without PyPI
nothing is measured.

BENCH_QUICK=1 runs a few rounds and writes nothing. Collected only by name: a test must not measure
time.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from accounts.models import ApiToken
from tests.bench.bench_reading import filled
from tests.bench.page import QUICK, Measured, report
from tests.bench.served import cpu_of
from tests.support.people.office import Office, office
from tests.support.processes.programs import MANAGE, environment, this_test
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.imap_service import PASSWORD, ImapService

__all__ = ["office"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

MAILS, ROUNDS = (300, 3) if QUICK else (3_000, 40)
PEER = "mcp-email-server"
PINS = (PEER, "mcp<2")
INSTALL_SECONDS = 300
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mailhub-bench"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@dataclass(kw_only=True)
class Stdio:
    """A server over stdio, and what its calls took."""

    process: subprocess.Popen[bytes]
    times: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def ask(self, message: dict[str, Any]) -> bytes:
        """Send a request, and return the line that answers it."""
        self._send(message)
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if json.loads(line).get("id") == message["id"]:
                return line
        raise AssertionError("the server ended")

    def initialize(self) -> None:
        self.ask(HELLO)
        self._send(INITIALIZED)

    def call(self, what: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool, note time, CPU and size under `what`, and return its result."""
        asked = {"name": tool, "arguments": arguments}
        used, began = cpu_of(self.process.pid), time.perf_counter()
        line = self.ask({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked})
        self.times.setdefault(what, []).append((time.perf_counter() - began) * 1000)
        self.cpu[what] = self.cpu.get(what, 0.0) + (cpu_of(self.process.pid) - used) * 1000
        self.sizes[what] = len(line)
        result: dict[str, Any] = json.loads(line)["result"]
        assert not result.get("isError"), line
        found: dict[str, Any] = json.loads(result["content"][0]["text"])
        return found

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


@contextmanager
def started(command: list[str], home: Path, settings: dict[str, object]) -> Iterator[Stdio]:
    home.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        command,
        env=environment(home, {"HOME": home, **settings}),
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = Stdio(process=process)
        server.initialize()
        yield server
    finally:
        process.kill()
        process.communicate()


def installed() -> tuple[Path, str]:
    """Return the peer's program and version, installed into the cache; raise OSError or
    SubprocessError if that is impossible.
    """
    folder = CACHE / PEER
    program = folder / "bin" / PEER
    python = folder / "bin" / "python"
    if not program.exists():
        commands = (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *PINS],
        )
        for command in commands:
            subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    version = f"from importlib.metadata import version; print(version({PEER!r}))"
    done = subprocess.run(
        [str(python), "-c", version], check=True, capture_output=True, text=True, timeout=60
    )
    return program, done.stdout.strip()


def settings_of_peer(imap: ImapService, address: str) -> dict[str, object]:
    name = "MCP_EMAIL_SERVER_"
    return {
        f"{name}EMAIL_ADDRESS": address,
        f"{name}PASSWORD": PASSWORD,
        f"{name}IMAP_HOST": "127.0.0.1",
        f"{name}IMAP_PORT": imap.port,
        f"{name}IMAP_SSL": "false",
        f"{name}SMTP_HOST": "127.0.0.1",
        f"{name}SMTP_PORT": 1,
        f"{name}CREDENTIAL_STORAGE": "plaintext",
    }


def rounds_of(ours: Stdio, peer: Stdio) -> list[Callable[[], object]]:
    """Return the calls of one round: each one of ours, then the peer's."""
    account = {"account_name": "default"}
    mine = str(ours.call("", "list_emails", {"max_results": 10})["emails"][5]["id"])
    listed = peer.call("", "list_emails_metadata", {**account, "page_size": 10})
    its = str(listed["emails"][5]["email_id"])
    find = "p7@northwind"
    return [
        lambda: ours.call("newest ten", "list_emails", {"max_results": 10}),
        lambda: peer.call("newest ten", "list_emails_metadata", {**account, "page_size": 10}),
        lambda: ours.call("search by a sender", "search_emails", {"from": find, "max_results": 10}),
        lambda: peer.call(
            "search by a sender",
            "list_emails_metadata",
            {**account, "page_size": 10, "from_address": find},
        ),
        lambda: ours.call("one mail", "read_email", {"message_id": mine}),
        lambda: peer.call("one mail", "get_emails_content", {**account, "email_ids": [its]}),
    ]


@pytest.mark.goal("P1")
def test_same_calls_on_the_same_mailbox(office: Office, tmp_path: Path) -> None:
    try:
        program, version = installed()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"not measured, because {PEER} cannot be installed: {type(error).__name__}")
    assert isinstance(office.imap, Dovecot)
    filled(office, MAILS)
    token = ApiToken.issue(
        user=office.reviewer.user, name="desk", scopes=["mail:read"], mailboxes=[office.mailbox]
    )[1]
    settings = {**this_test(), "MAILHUB_TOKEN": token, "MAILHUB_REQUESTS_PER_MINUTE": 1_000_000}
    with (
        started([*MANAGE, "mcp"], tmp_path / "ours", settings) as ours,
        started(
            [str(program), "stdio"], tmp_path / "peer", settings_of_peer(office.imap, office.ada)
        ) as peer,
    ):
        calls = rounds_of(ours, peer)
        for server in (ours, peer):
            server.times.clear()
            server.cpu.clear()
        for _ in range(ROUNDS):
            for call in calls:
                call()
    report("P1", *(row(what, ours, peer, version) for what in ours.times))


def row(what: str, ours: Stdio, peer: Stdio, version: str) -> Measured:
    """Return how much of the peer's time, CPU and bytes a call takes."""
    here, there = (
        (statistics.median(each.times[what]), each.cpu[what] / ROUNDS, each.sizes[what])
        for each in (ours, peer)
    )
    return Measured(
        what=f"{what} over MCP: median time, CPU and bytes, mailhub / {PEER} {version}, {MAILS:,} mails",
        measured=f"{here[0] / there[0]:.2f} ({here[0]:.0f} / {there[0]:.0f} ms),"
        f" {here[1] / there[1]:.2f} ({here[1]:.0f} / {there[1]:.0f} ms), {here[2] / there[2]:.2f}",
        limit="below 1 each",
        met=all(one < other for one, other in zip(here, there, strict=True)),
    )
