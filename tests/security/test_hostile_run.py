"""Real processes, one person with hostile mail servers, and another one whose mail must still be
sent.

MAILHUB_HOSTILE_MINUTES sets how long the long run takes.
"""

import json
import os
import re
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.installation import Installation
from tests.support.processes.person import Person, request
from tests.support.processes.proc import proc
from tests.support.processes.programs import Program, session_of, until
from tests.support.servers.hostile import Harm, HostileImap, HostileSmtp
from tests.support.servers.sandbox import SandboxServer
from tests.support.servers.smtp import FaultySmtp

pytestmark = [pytest.mark.process, pytest.mark.sqlite_only]
MALLORY = "mallory@evil.example"
SMTP: list[tuple[Harm, str]] = [
    ("drip", "rcpt"), ("silent", "greeting"), ("endless_lines", "ehlo"), ("drip", "dot"),
    ("silent", "dot"), ("endless_line", "data"), ("drip", "mail"), ("drip", "greeting"),
]  # fmt: skip
IMAP: list[tuple[Harm, str]] = [
    ("drip", "search"), ("literal", "examine"), ("endless_lines", "fetch"), ("silent", "login"),
    ("endless_line", "list"), ("literal_in_pieces", "search"), ("digits", "fetch"), ("drip", "greeting"),
]  # fmt: skip
LEAVES_SECONDS = 20.0  # maximum on a busy machine
HEALTH_SECONDS = 5.0
MOST_MEGABYTES = 400


class Mallory:
    """Mailboxes at servers that behave until `turn`, a token and a browser."""

    def __init__(self, installation: Installation, running: ExitStack, mailboxes: int) -> None:
        self._of = installation
        self.smtp = [
            running.enter_context(HostileSmtp(harm, at="", every=5)) for harm, _ in SMTP[:mailboxes]
        ]
        self.imap = [
            running.enter_context(HostileImap(harm, at="", every=5)) for harm, _ in IMAP[:mailboxes]
        ]
        for server in (*self.smtp, *self.imap):
            installation.changes["MAILHUB_LOOPBACK_SERVERS"] = (
                f"{installation.changes['MAILHUB_LOOPBACK_SERVERS']},127.0.0.1:{server.port}"
            )
        installation.command("create_user", "--email", MALLORY, "--name", "Mallory")
        self.addresses = [f"m{number}@evil.example" for number in range(mailboxes)]
        for address, smtp, imap in zip(self.addresses, self.smtp, self.imap, strict=True):
            installation.command(
                "connect_mailbox",
                "imap",
                "--address",
                address,
                "--owner",
                MALLORY,
                "--password-stdin",
                "--imap",
                f"127.0.0.1:{imap.port}:plain",
                "--smtp",
                f"127.0.0.1:{smtp.port}:plain",
                stdin="x",
            )
        named = (
            "--name",
            "m",
            "--scopes",
            "mail:read,mail:propose",
            "--mailboxes",
            ",".join(self.addresses),
        )
        self._token = installation.command("create_token", "--user", MALLORY, *named)

    def turn(self) -> None:
        """Make the servers hostile. Proposals look into Sent, so they come first."""
        for smtp, (_, at) in zip(self.smtp, SMTP, strict=False):
            smtp.at = at
        for imap, (_, at) in zip(self.imap, IMAP, strict=False):
            imap.at = at

    def call(self, url: str, tool: str, **arguments: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        answer = request(
            f"{url}/api/v1/tools/{tool}",
            "POST",
            body=json.dumps(arguments).encode(),
            headers=headers,
        )
        return answer.status, answer.json()

    def send(self, url: str) -> None:
        """Propose a mail in each mailbox, make the servers hostile, and approve the mails."""
        person = Person(url)
        link = self._of.command("sign_in_link", "--user", MALLORY, MAILHUB_PUBLIC_URL=url)
        assert person.submit(link, "sign-in").status == 302
        proposed = []
        for address in self.addresses:
            mail = {
                "to": ["x@x.example"],
                "subject": address,
                "body": "x",
                "confirm": True,
                "mailbox": address,
            }
            status, answer = self.call(url, "send_email", **mail)
            assert status == 202, answer
            proposed.append(answer["action"]["id"])
        self.turn()
        for action_id in proposed:
            assert person.submit(f"/actions/{action_id}/", "approve").status == 302

    def read(self, url: str, ended: threading.Event) -> None:
        """Request the mail of every mailbox again and again, all at once."""

        def ask(address: str) -> None:
            while not ended.wait(0.5):
                with suppress(OSError):
                    self.call(url, "search_emails", mailbox=address, text="{10}")

        for address in self.addresses:
            threading.Thread(target=ask, args=[address], daemon=True).start()


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def memory_of(program: Program) -> float:
    """Return the resident memory of the program and its children, in MB."""
    total = 0
    for pid in session_of(program.pid):
        with suppress(OSError):
            total += int(re.findall(r"VmRSS:\s+(\d+) kB", proc(pid, "status").read_text())[0])
    return total / 1024


def run(
    home: Path,
    sandbox: SandboxServer,
    running: ExitStack,
    *,
    seconds: float,
    mailboxes: int = len(SMTP),
) -> str:
    """Let Mallory's servers do harm for so long; return the times of Ada's mail and of the pages,
    and the memory.
    """
    ada_smtp = running.enter_context(FaultySmtp())
    installation = running.enter_context(
        Installation(
            home,
            ada_smtp,
            sandbox,
            MAILHUB_LEASE_SECONDS=30,
            MAILHUB_SECOND_FACTOR="optional",  # its people have links only
        )
    )
    installation.prepare()
    mallory = Mallory(installation, running, mailboxes)
    web, worker = installation.serve(), installation.worker()
    url = installation.person()._url
    until(lambda: request(f"{url}/statusz").status == 200, say=worker.log)
    mallory.send(url)
    ended = threading.Event()
    running.callback(ended.set)
    mallory.read(url, ended)
    ends_at = time.monotonic() + seconds
    left, health, ready, memory = (
        list[float](),
        list[float](),
        list[int](),
        {"web": 0.0, "worker": 0.0},
    )
    while time.monotonic() < ends_at:
        number = len(left)
        installation.approved(f"Mail {number}")
        approved = time.monotonic()
        until(lambda: len(ada_smtp.ledger) > number, seconds=LEAVES_SECONDS, say=worker.log)  # noqa: B023
        left.append(time.monotonic() - approved)
        began = time.monotonic()
        assert request(f"{url}/healthz").status == 200
        health.append(time.monotonic() - began)
        ready.append(request(f"{url}/readyz").status)
        for name, program in (("web", web), ("worker", worker)):
            memory[name] = max(memory[name], memory_of(program))
        time.sleep(min(2.0, seconds / 60))
    assert set(ready) == {200}, ready
    assert max(health) < HEALTH_SECONDS
    assert max(memory.values()) < MOST_MEGABYTES, memory
    said = sum(server.sent for server in (*mallory.smtp, *mallory.imap)) / 1024**2
    connections = sum(server.connections for server in (*mallory.smtp, *mallory.imap))
    return (
        f"{seconds:.0f} s: {len(left)} mails of Ada left after {statistics.median(left):.2f} s (median), "
        f"{max(left):.2f} s (worst); /healthz {max(health) * 1000:.0f} ms (worst); /readyz {len(ready)} times 200; "
        f"web {memory['web']:.0f} MB, worker {memory['worker']:.0f} MB (most); hostile servers: {connections} "
        f"connections, {said:.0f} MB said"
    )


@pytest.mark.long  # it measures times, which vary on a busy machine
@pytest.mark.timeout(240)
def test_mail_leaves_beside_hostile_servers(
    tmp_path: Path, sandbox: SandboxServer, running: ExitStack
) -> None:
    sys.stdout.write(run(tmp_path, sandbox, running, seconds=20, mailboxes=5))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_mail_leaves_beside_hostile_servers_for_long(
    tmp_path: Path, sandbox: SandboxServer, running: ExitStack
) -> None:
    minutes = float(os.environ.get("MAILHUB_HOSTILE_MINUTES", "10"))
    sys.stdout.write(run(tmp_path, sandbox, running, seconds=60 * minutes))
