"""The web server of a mailhub as `make run` starts it, and behind the proxy of the compose file."""

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.processes.mailhub import Mailhub
from tests.support.processes.person import Answer, request
from tests.support.processes.proc import proc
from tests.support.processes.programs import SECONDS, session_of
from tests.support.servers.caddy import Caddy

TOKEN_PATH = "/api/v1/tools/list_mailboxes"


@dataclass(frozen=True, kw_only=True)
class Door:
    """One server on a port.

    `secret` is a token, `cookie` a person's; `leader` its first process.
    """

    port: int
    secret: str
    cookie: str
    leader: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)

    def send(self, path: str, body: bytes, *, method: str = "POST", **headers: str) -> Answer:
        """Send one request with its whole body; names of headers are written with underscores."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return request(self.url + path, method, body=body, headers=given)

    def announce(
        self, path: str, length: int, headers: Mapping[str, str], sent: bytes = b""
    ) -> socket.socket:
        """Begin a request and send less than it announces."""
        client = self.connect()
        client.sendall(head(path, {"Content-Length": str(length), **headers}) + sent)
        return client

    def calls(self, number: int = 1) -> list[float]:
        """Return the seconds of each REST call, made one after the other."""
        took = []
        for _ in range(number):
            began = time.monotonic()
            answer = self.send(TOKEN_PATH, b"{}", Authorization=f"Bearer {self.secret}")
            assert answer.status == 200, answer.text
            took.append(time.monotonic() - began)
        return took

    def page(self, path: str) -> float:
        """Return the seconds that a page took."""
        began = time.monotonic()
        assert request(self.url + path).status == 200
        return time.monotonic() - began

    def megabytes(self) -> float:
        """Return the resident memory of all processes of this server, in megabytes."""
        return sum(resident(pid) for pid in {self.leader, *session_of(self.leader)}) / 1024


def head(path: str, headers: dict[str, str]) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answered(client: socket.socket, seconds: float = SECONDS) -> bytes:
    """Return the bytes of a connection until it ends, or until nothing more comes."""
    client.settimeout(seconds)
    said = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        while piece := client.recv(65536):
            said += piece
            if b"\r\n\r\n" in said and said.endswith((b"}", b"</html>\n")):
                break
    return said


def resident(pid: int) -> float:
    """Return the resident memory in kilobytes; zero for a process that has ended."""
    with contextlib.suppress(OSError):
        for line in proc(pid, "status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1])
    return 0.0


@contextmanager
def open_door(home: Path) -> Iterator[Door]:
    """Yield the server of a mailhub with its sandbox."""
    with Mailhub(home) as mailhub:
        secret, cookie = str(mailhub.sandbox["api_token"]), mailhub.person().cookie
        web = next(pid for name, pid in mailhub.children().items() if name == "web")
        yield Door(port=mailhub.port, secret=secret, cookie=cookie, leader=web)


@contextmanager
def proxied(door: Door) -> Iterator[Door]:
    """Yield a server behind Caddy, with the configuration of the compose file."""
    with Caddy(web=door.port, stream=door.port) as proxy:
        yield replace(door, port=proxy.port)
