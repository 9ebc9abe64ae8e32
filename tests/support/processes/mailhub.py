"""Real mailhub processes in a temporary home: started, driven from outside, ended without a trace.

with Mailhub(tmp_path) as mailhub:
    ...  # mailhub.rest("POST", "/tools/send_email", {...}), mailhub.person(), mailhub.mail("mira@…", "INBOX", …)
"""

import contextlib
import imaplib
import json
import os
import signal
from collections.abc import Iterator, Mapping
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Self

from tests.support.processes.person import Answer, Person, request
from tests.support.processes.programs import (
    END_SECONDS,
    PROJECT,
    SECONDS,
    Program,
    manage,
    session_of,
    until,
)
from tests.support.processes.template import begin_migrated
from tests.support.servers.services import free_port


class Mailhub(Program):
    """`manage.py run` on a free port, ready when the block begins and ended by a Ctrl-C with it.

    Its home has a migrated database already, unless it is `fresh`.
    """

    def __init__(
        self, home: Path, *, port: int | None = None, fresh: bool = False, **changes: object
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        if not fresh:
            begin_migrated(home)
        self.port = port or free_port()
        self.url = f"http://localhost:{self.port}"
        super().__init__(home, "run", PORT=self.port, **changes)
        self._owner: Person | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None and self.process is not None and self.process.poll() is None:
                assert self.interrupt() == 0
        finally:
            self.kill()

    def wait_ready(self) -> None:
        """Return once /statusz answers 200."""

        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"it ended: {self.log()}"
            try:
                return request(f"{self.url}/statusz").status == 200
            except OSError:
                return False

        until(ready, say=self.log)

    def interrupt(self) -> int:
        """Send SIGINT to all processes at once, as Ctrl-C does.

        Return the exit code; no process may be left.
        """
        os.killpg(self.pid, signal.SIGINT)
        return self.wait(END_SECONDS)

    def children(self) -> dict[str, int]:
        """Return the pids of the children by their command."""
        return {
            line[2]: pid
            for pid, line in session_of(self.pid).items()
            if pid != self.pid and line[1:2] == [str(PROJECT / "manage.py")]
        }

    @property
    def sandbox(self) -> dict[str, Any]:
        """Return the content of `sandbox.json`."""
        content: dict[str, Any] = json.loads((self.home / "sandbox.json").read_text())
        return content

    def rest(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Call the API with the token of `sandbox.json`; names of headers are written with
        underscores.
        """
        given = {"Authorization": f"Bearer {self.sandbox['api_token']}"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        content = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            given |= {"Content-Type": "application/json"}
        address = path if path.startswith("/api/") else f"/api/v1{path}"
        return request(self.url + address, method, body=content, headers=given)

    def propose(self, subject: str, **changes: object) -> dict[str, Any]:
        """Propose a mail to the customer, and return the action."""
        mail = {
            "to": ["mira@northwind.example"],
            "subject": subject,
            "body": "Hello Mira.",
            "confirm": True,
        }
        answer = self.rest("POST", "/tools/send_email", mail | changes)
        assert answer.status == 202, answer.text
        action: dict[str, Any] = answer.json()["action"]
        return action

    def action(self, action_id: str) -> dict[str, Any]:
        action: dict[str, Any] = self.rest("GET", f"/actions/{action_id}").json()
        return action

    def ended(self, action_id: str) -> dict[str, Any]:
        """Return the action once its state no longer changes by itself."""
        until(
            lambda: self.action(action_id)["state"] not in ("pending", "approved", "executing"),
            say=self.log,
        )
        return self.action(action_id)

    def new_link(self) -> str:
        """Return a new one-time link for the person of `sandbox.json`."""
        return manage(self.home, "sign_in_link", "--user", self.sandbox["user"]).stdout.strip()

    def person(self, link: str | None = None) -> Person:
        """Return a person signed in by a one-time link; without one, the person of `sandbox.json`,
        who stays signed in.
        """
        if link is None:
            self._owner = self._owner or self.person(self.new_link())
            return self._owner
        person = Person(self.url)
        answer = person.submit(link, "sign-in")
        assert answer.status == 302, answer.text
        return person

    def mail(self, address: str, folder: str, subject: str) -> list[EmailMessage]:
        """Return the mails in a folder of the sandbox with that subject."""
        accounts = [self.sandbox["imap"], *(other["imap"] for other in self.sandbox["others"])]
        account = next(account for account in accounts if account["user"] == address)
        return mail_in(account, folder, "SUBJECT", subject)


@contextlib.contextmanager
def signed_in(account: Mapping[str, Any]) -> Iterator[imaplib.IMAP4]:
    """Yield an IMAP session for an account of `sandbox.json`."""
    client = imaplib.IMAP4(account["host"], account["port"], timeout=SECONDS)
    try:
        client.login(account["user"], account["password"])
        yield client
    finally:
        client.shutdown()


def mail_in(account: Mapping[str, Any], folder: str, *criteria: str) -> list[EmailMessage]:
    """Return the messages of a folder that a SEARCH finds; the last criterion is quoted."""
    with signed_in(account) as client:
        assert client.select(folder, readonly=True)[0] == "OK"
        _, (numbers,) = client.search(None, *criteria[:-1], f'"{criteria[-1]}"')
        fetched = [client.fetch(number.decode(), "(BODY.PEEK[])")[1] for number in numbers.split()]
    return [
        message_from_bytes(part[1], policy=policy.default)
        for rows in fetched
        for part in rows
        if isinstance(part, tuple)
    ]
