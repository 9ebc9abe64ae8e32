"""moto's S3 in a process of its own, which needs flask and flask_cors, behind a proxy with faults."""

import contextlib
import http.client
import re
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from boto3.session import Session

from accounts.infra.bucket import Bucket
from tests.support.processes.programs import until
from tests.support.servers.listening import SECONDS, Listening

DROPS = 300  # bytes of a slow body, a tenth of a second each
SILENT_SECONDS = 30.0  # then the proxy disconnects
KEY, SECRET, REGION = "key", "secret", "eu-central-1"
Fault = Literal["", "500", "denied", "silent", "slow", "cut", "lost"]


class Faulty(Listening):
    """A proxy that answers the requests of some methods by a fault: `fail` names it for a method."""

    def __init__(self, target: int) -> None:
        super().__init__()
        self._target = target
        self.fail: dict[str, Fault] = {}
        self.seen: list[str] = []

    def serve(self, sock: socket.socket) -> None:
        reader = sock.makefile("rb")
        while line := reader.readline():
            method, path, _ = line.decode().split()
            headers = dict(http.client.parse_headers(reader))
            if headers.pop("Expect", ""):
                sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = reader.read(int(headers.get("Content-Length", 0)))
            self.seen.append(method)
            self._answer(sock, self.fail.get(method, ""), method, path, headers, body)

    def _answer(
        self,
        sock: socket.socket,
        fault: Fault,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
    ) -> None:
        if fault == "silent":
            sock.settimeout(SILENT_SECONDS)
            sock.recv(1)  # until the client gives up
            raise ConnectionResetError
        if fault in ("500", "denied"):
            status, code = {"500": (500, "InternalError"), "denied": (403, "AccessDenied")}[fault]
            _send(sock, status, f"<Error><Code>{code}</Code></Error>".encode())
            return
        if fault == "slow":
            _send(sock, 200, b"x" * 300_000, whole=False)
            for _ in range(DROPS):
                if self._gives_up(sock):
                    break
                sock.sendall(b"x")
            raise ConnectionResetError
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", self._target, timeout=SECONDS)
        ) as server:
            server.request(method, path, body, headers)
            answer = server.getresponse()
            content = answer.read()
        if fault == "lost":  # it was done, and nobody learns it
            raise ConnectionResetError
        _send(sock, answer.status, content, whole=fault != "cut")
        if fault == "cut":
            raise ConnectionResetError

    def _gives_up(self, sock: socket.socket) -> bool:
        """Return True if the client closes the connection within a tenth of a second."""
        sock.settimeout(0.1)
        try:
            return sock.recv(1) == b""
        except TimeoutError:
            return False


def _send(sock: socket.socket, status: int, content: bytes, *, whole: bool = True) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n\r\n"
    sock.sendall(head.encode() + (content if whole else content[:10]))


@dataclass(frozen=True, kw_only=True)
class TestBucket:
    """An empty bucket; mailhub reaches it by the proxy, a test by `client`."""

    __test__ = False

    name: str
    proxy: Faulty
    client: Any

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of mailhub's storage."""
        return {
            "bucket_name": self.name,
            "endpoint_url": f"http://127.0.0.1:{self.proxy.port}",
            "region_name": REGION,
            "access_key": KEY,
            "secret_key": SECRET,
            "seconds": 5,
        }

    @property
    def variables(self) -> dict[str, object]:
        """Return the variables of the environment for a process of mailhub."""
        return {
            "MAILHUB_CONTENT_STORE": "s3",
            "MAILHUB_S3_BUCKET": self.name,
            "MAILHUB_S3_ENDPOINT_URL": self.options["endpoint_url"],
            "MAILHUB_S3_REGION": REGION,
            "MAILHUB_S3_ACCESS_KEY_ID": KEY,
            "MAILHUB_S3_SECRET_ACCESS_KEY": SECRET,
        }

    def names(self) -> list[str]:
        listed = self.client.list_objects_v2(Bucket=self.name)
        return [each["Key"] for each in listed.get("Contents", [])]

    def read(self, name: str) -> bytes:
        return bytes(self.client.get_object(Bucket=self.name, Key=name)["Body"].read())

    def write(self, name: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=name, Body=content)

    def remove(self, name: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=name)


@cache
def session() -> Session:
    return Session(aws_access_key_id=KEY, aws_secret_access_key=SECRET)


class QuickBucket(Bucket):
    """mailhub's storage with one session for all tests: each new one reads long descriptions."""

    def _create_session(self) -> Session:
        return session()


@contextlib.contextmanager
def serve_s3() -> Iterator[int]:
    """Run moto's server, and yield its port."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    # A file, because nobody reads a pipe for the whole time, and it would fill.
    with (
        tempfile.NamedTemporaryFile() as log,
        subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL) as process,
    ):

        def find_port() -> int | None:
            assert process.poll() is None, "moto did not start"
            found = re.search(r"http://127\.0\.0\.1:(\d+)", Path(log.name).read_text())
            return int(found[1]) if found else None

        try:
            port = until(find_port)
            assert port is not None
            yield port
        finally:
            process.kill()


@contextlib.contextmanager
def make_bucket(port: int) -> Iterator[TestBucket]:
    """Make an empty bucket, and yield it behind a proxy."""
    client = session().client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name=REGION)
    name = f"messages-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    with Faulty(port) as proxy:
        yield TestBucket(name=name, proxy=proxy, client=client)
    client.close()
