"""A whole mailhub in its own home: a web server, workers, and a mailbox whose SMTP server the test
controls.

with Installation(tmp_path, smtp, sandbox) as installation:
    action_id = installation.approved("Hello")
    with installation.worker() as worker: ...
"""

import json
import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.processes.person import Answer, Person, request
from tests.support.processes.programs import MANAGE, Program, run, session_of, until
from tests.support.processes.template import KEYS, begin_migrated
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.sandbox import ADA, SandboxServer
from tests.support.servers.services import free_port
from tests.support.servers.smtp import FaultySmtp

OWNER = "owner@lovelace.example"
# Reads a list of commands, each with its input, and prints the list of their outputs.
IN_ONE_PROCESS = """
import io, json, sys
from django.core.management import call_command
outputs = []
for arguments, given in json.load(sys.stdin):
    sys.stdin, output = io.StringIO(given), io.StringIO()
    call_command(*arguments, stdout=output)
    outputs.append(output.getvalue().strip())
print(json.dumps(outputs))
"""


class Installation:
    """An installation; `changes` are settings of all its processes.

    `program` is the manage.py with which processes and commands begin; it may change, as in an
    update. `prepare()` creates the database, the owner and the mailbox.
    """

    def __init__(
        self, home: Path, smtp: FaultySmtp, sandbox: SandboxServer | Dovecot, **changes: object
    ) -> None:
        self.home = home
        self.program: Sequence[str] = MANAGE
        imap = sandbox.access(ADA).imap.port
        self.changes: dict[str, object] = {
            **KEYS,
            "MAILHUB_LOOPBACK_SERVERS": f"127.0.0.1:{imap},127.0.0.1:{smtp.port}",
            "MAILHUB_UNDO_SECONDS": 0,
            # A worker on a busy machine renews its lease in time.
            "MAILHUB_LEASE_SECONDS": 15,
            **changes,
        }
        self._smtp, self._sandbox = smtp, sandbox
        self._running = ExitStack()
        self.url = self._token = self._link = ""
        self._person: Person | None = None

    def prepare(self) -> None:
        access = self._sandbox.access(ADA)
        if self.changes.get("DATABASE_URL") or self.program is not MANAGE:
            self.command("migrate", "--verbosity=0")
        else:
            begin_migrated(self.home)
        connect = [
            *("connect_mailbox", "imap", "--address", ADA, "--owner", OWNER, "--password-stdin"),
            *("--imap", f"127.0.0.1:{access.imap.port}:plain"),
            *("--smtp", f"127.0.0.1:{self._smtp.port}:plain"),
        ]
        named = ("--name", "agent", "--scopes", "mail:read,mail:propose", "--mailboxes", ADA)
        _, _, self._token, self._link = self.commands(
            (["create_user", "--email", OWNER, "--name", "Olive Owner"], ""),
            (connect, access.password),
            (["create_token", "--user", OWNER, *named], ""),
            (["sign_in_link", "--user", OWNER], ""),
        )

    def commands(self, *several: tuple[list[str], str]) -> list[str]:
        """Run commands, each with its input, in one process, and return their outputs.

        The start of a process takes longer than most commands.
        """
        said = self.command(
            "shell", "--no-imports", "-c", IN_ONE_PROCESS, stdin=json.dumps(several)
        )
        outputs: list[str] = json.loads(said)
        return outputs

    def command(self, *arguments: str, stdin: str = "", **changes: object) -> str:
        """Run a command on this installation, and return its output. Fail if the command fails."""
        given = {**self.changes, **changes}
        done = run([*self.program, *arguments], self.home, given, stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def serve(self, **changes: object) -> Program:
        """Start the web server and return once it answers."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        given = {**self.changes, "MAILHUB_PUBLIC_URL": self.url, **changes}
        web = self._started("web", "--port", str(port), **given)

        def answers() -> bool:
            try:
                return request(f"{self.url}/healthz").status == 200
            except OSError:
                return False

        until(answers, say=web.log)
        return web

    def worker(self, **changes: object) -> Program:
        """Start one more worker; it ends with the installation."""
        return self._started("worker", **{**self.changes, **changes})

    def _started(self, *arguments: str, **changes: object) -> Program:
        program = Program(self.home, *arguments, **changes)
        program.program = self.program
        return self._running.enter_context(program)

    def rest(self, method: str, path: str, body: object = None) -> Answer:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        return request(f"{self.url}/api/v1{path}", method, body=content, headers=headers)

    def page(self, path: str) -> Answer:
        return self.person().get(path)

    def person(self) -> Person:
        kept = self._person
        # Still signed in after a restart, unless an older copy of the database came back.
        if kept is None or kept.at(self.url).get("/").status != 200:
            person = Person(self.url)
            link, self._link = self._link, ""  # it works once
            if not link:
                link = self.command("sign_in_link", "--user", OWNER)
            link = self.url + urlsplit(link).path  # the command does not know the port
            assert person.submit(link, "sign-in").status == 302
            self._person = kept = person
        return kept

    def proposed(self, subject: str) -> str:
        mail = {
            "to": ["mira@northwind.example"],
            "subject": subject,
            "body": f"About {subject}.",
            "confirm": True,
        }
        answer = self.rest("POST", "/tools/send_email", mail)
        assert answer.status == 202, answer.text
        return str(answer.json()["action"]["id"])

    def approve(self, action_id: str) -> None:
        answer = self.person().submit(f"/actions/{action_id}/", "approve")
        assert answer.status == 302, answer.text

    def approved(self, subject: str) -> str:
        action_id = self.proposed(subject)
        self.approve(action_id)
        return action_id

    def action(self, action_id: str) -> dict[str, Any]:
        action: dict[str, Any] = self.rest("GET", f"/actions/{action_id}").json()
        return action

    def reaches(self, action_id: str, *states: str) -> dict[str, Any]:
        until(
            lambda: self.action(action_id)["state"] in states,
            say=lambda: str(self.action(action_id)),
        )
        return self.action(action_id)

    def stop(self) -> None:
        """Kill all of its processes at once."""
        self._running.close()
        self._running = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def cut_off(program: Program) -> None:
    """Kill a process and everything it has started, as a power cut does."""
    for pid in session_of(program.pid):
        os.kill(pid, signal.SIGKILL)
