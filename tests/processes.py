"""Real mailhub processes in a temporary home: started, driven from outside, ended without a trace.

with Mailhub(tmp_path) as mailhub:
    ...  # mailhub.rest("POST", "/tools/send_email", {...}), mailhub.person(), mailhub.mail("mira@…", "INBOX", …)
"""

import contextlib
import http.client
import imaplib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.db import connection

from tests.services import free_port

PROJECT = Path(__file__).resolve().parent.parent
MANAGE = [sys.executable, str(PROJECT / "manage.py")]
SECONDS = 60.0  # limits every wait; generous, because a busy machine is no error
END_SECONDS = 15.0  # the maximum time of a Ctrl-C
POLL_SECONDS = 0.03
T = TypeVar("T")
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "COVERAGE_PROCESS_START")


def until(
    condition: Callable[[], T], *, seconds: float = SECONDS, say: Callable[[], str] = lambda: ""
) -> T:
    """Poll until the condition holds, and return what it returned."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s. {say()}"
        time.sleep(POLL_SECONDS)
    return found


def environment(home: Path, changes: Mapping[str, object]) -> dict[str, str]:
    """Return the environment of a mailhub process: the variables of a shell, without the test run's
    own settings.
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return (
        kept | {"MAILHUB_HOME": str(home)} | {name: str(value) for name, value in changes.items()}
    )


def this_test(*, database_port: int | None = None) -> dict[str, object]:
    """Return settings with which another process uses the test's database and reads the test's
    data.
    """
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        url = f"sqlite:///{database['NAME']}"
    else:
        url = f"postgres://{database['USER']}@{database['HOST']}:{database_port or database['PORT']}/{database['NAME']}"
    return {
        "DATABASE_URL": url,
        "SECRET_KEY": settings.SECRET_KEY,
        "MAILHUB_ENCRYPTION_KEYS": ",".join(settings.MAILHUB_ENCRYPTION_KEYS),
        "MAILHUB_ALLOW_LOOPBACK_HOSTS": 1,
    }


def manage(
    home: Path, *arguments: str, stdin: str = "", **changes: object
) -> subprocess.CompletedProcess[str]:
    """Run one command on a home to its end; not for `run`, because it could not end its
    children.
    """
    return subprocess.run(
        [*MANAGE, *arguments],
        env=environment(home, changes),
        cwd=home,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def session_of(leader: int) -> dict[int, list[str]]:
    """Return the living processes of a session that we began, by pid, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):  # it ended meanwhile
            # state, ppid, pgrp, session: they follow the name, which may contain anything but ends
            # at the last bracket
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode().split("\0")
    return found


class Program:
    """A process in its own session, with its output in files of the home."""

    def __init__(self, home: Path, *arguments: str, **changes: object) -> None:
        self.home = home
        self._arguments = arguments
        self._changes = changes
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def command(self) -> Sequence[str]:
        return [*MANAGE, *self._arguments]

    def start(self) -> None:
        with (self.home / "stdout").open("ab") as out, (self.home / "stderr").open("ab") as err:
            self.process = subprocess.Popen(
                self.command(),
                env=environment(self.home, self._changes),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def stdout(self) -> str:
        return (self.home / "stdout").read_text()

    def log(self) -> str:
        return (self.home / "stderr").read_text()

    def wait(self, seconds: float = SECONDS) -> int:
        """Wait for its end, assert that none of its processes is left, and return its exit code."""
        assert self.process is not None
        code = self.process.wait(seconds)
        until(
            lambda: not session_of(self.pid),
            seconds=2,
            say=lambda: f"left behind: {session_of(self.pid)}",
        )
        return code

    def kill(self) -> None:
        """Kill everything that still runs, whatever the result of the test."""
        if self.process is not None:
            for pid in session_of(self.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait(SECONDS)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class WorkerProcess(Program):
    """Only `manage.py worker`."""

    def __init__(self, home: Path, **changes: object) -> None:
        super().__init__(home, "worker", **changes)

    def kill_9(self) -> None:
        """Die at once, by SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(SECONDS)

    def end(self) -> int:
        """End it by SIGTERM, and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.wait()

    def waits_for_signal(self, number: signal.Signals) -> bool:
        """Return True if a signal was sent and is still pending."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        pending = int(re.findall(r"^ShdPnd:\s+([0-9a-f]+)$", status, re.MULTILINE)[0], 16)
        return bool(pending & (1 << (number - 1)))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to an HTTP request."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def text(self) -> str:
        return self.content.decode()


def request(
    url: str,
    method: str = "GET",
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request without following redirects, and return the answer."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return Answer(status=response.status, headers=response.msg, content=response.read())
    finally:
        connection.close()


class Forms(HTMLParser):
    """The forms of a page by their `data-action`: address, and the fields that a browser would send
    by itself.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, tuple[str, dict[str, str]]] = {}
        self.at: dict[str, dict[str, str]] = {}  # the same fields by the form's target address
        self._open: dict[str, str] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and given.get("method", "").lower() == "post":
            self._open = {}
            self.found[given.get("data-action", "")] = (given.get("action", ""), self._open)
            self.at[given.get("action", "")] = self._open
        elif tag == "input" and given.get("type") == "hidden" and self._open is not None:
            self._open[given["name"]] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None


class Person:
    """A person with a browser that runs no scripts: cookies, pages, and the forms on them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._cookies = SimpleCookie()

    @property
    def cookie(self) -> str:
        """Return the header that holds all cookies."""
        return "; ".join(f"{name}={morsel.value}" for name, morsel in self._cookies.items())

    def get(self, path: str) -> Answer:
        return self._go("GET", path)

    def submit(self, path: str, action: str, **changes: str) -> Answer:
        """Open a page and send the form with that `data-action`, with the fields of the page."""
        page = self.get(path)
        forms = Forms(page.text).found
        assert action in forms, f"{path} answers {page.status} with the forms {sorted(forms)}"
        address, fields = forms[action]
        return self.post(address or path, fields | changes)

    def post(self, path: str, fields: Mapping[str, str]) -> Answer:
        return self._go("POST", path, fields)

    def _go(self, method: str, path: str, fields: Mapping[str, str] | None = None) -> Answer:
        headers = {"Cookie": self.cookie}
        body = None
        if fields is not None:
            body = urlencode(fields).encode()
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._url}
        answer = request(
            path if "://" in path else self._url + path, method, body=body, headers=headers
        )
        for cookie in answer.headers.get_all("Set-Cookie") or []:
            self._cookies.load(cookie)
        return answer


class Mailhub(Program):
    """`manage.py run` on a free port, ready when the block begins and ended by a Ctrl-C with it."""

    def __init__(self, home: Path, *, port: int | None = None, **changes: object) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self.process is not None and self.process.poll() is None:
                assert self.interrupt() == 0
        finally:
            self.kill()

    def wait_ready(self) -> None:
        """Return once /readyz answers 200."""

        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"it ended: {self.log()}"
            try:
                return request(f"{self.url}/readyz").status == 200
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


class CuttingProxy:
    """A proxy in front of PostgreSQL that cuts the connection at the first COMMIT: before it, or
    after.
    """

    def __init__(self, target: tuple[str, int], *, forward: bool) -> None:
        self._target = target
        self._forward = forward
        self.cuts = 0
        self._after = b""
        self._armed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def arm(self, *, after: bytes = b"") -> None:
        """Cut at the next COMMIT, once; with `after`, at the next one of a connection that has sent
        these bytes.
        """
        self._after = after
        self._armed.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target, timeout=SECONDS)
                server.settimeout(None)
                self._sockets += [client, server]
                for source, sink, asks in ((client, server, True), (server, client, False)):
                    threading.Thread(
                        target=self._pump, args=(source, sink), kwargs={"asks": asks}, daemon=True
                    ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, *, asks: bool) -> None:
        seen = False
        with contextlib.suppress(OSError):
            while content := source.recv(65536):
                seen = seen or (self._armed.is_set() and self._after in content)
                # A simple query: 'Q', length, text, NUL.
                if asks and seen and b"COMMIT\0" in content and self._armed.is_set():
                    self._armed.clear()
                    self.cuts += 1
                    if self._forward:
                        # The client disconnects before the answer comes.
                        source.shutdown(socket.SHUT_RDWR)
                        sink.sendall(content)
                        continue
                    break
                sink.sendall(content)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(SECONDS)
        for each in self._sockets:
            each.close()
