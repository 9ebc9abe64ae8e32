"""The limits of a request's head, and upgrades, at the server that `manage.py web` runs."""

import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher

from mailhub import web_server
from mailhub.asgi import application
from mailhub.intake.rules import HEADER_BYTES
from tests.conformance.served import served

pytestmark = pytest.mark.django_db(transaction=True)
HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.fixture
def client() -> Iterator[socket.socket]:
    with served(application) as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), 30) as found:
            yield found


def answer(client: socket.socket) -> bytes:
    """Return what the server says until it closes the connection, or after a complete head."""
    said = b""
    while b"\r\n\r\n" not in said and (piece := client.recv(65536)):
        said += piece
    return said


@pytest.mark.parametrize("field", [b"X-A: %b\r\n", b"X-%b: a\r\n"])
def test_endless_head_is_refused(client: socket.socket, field: bytes) -> None:
    client.sendall(HEAD)
    sent = 0
    try:
        while sent < 64 * web_server.HEAD_BYTES:
            client.sendall(field % (b"a" * 4000))
            sent += 4000
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert sent < 64 * web_server.HEAD_BYTES


@pytest.mark.parametrize("begun", [b"", HEAD, b"GET /" + b"a" * 1000])
def test_incomplete_head_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, client: socket.socket, begun: bytes
) -> None:
    client.sendall(HEAD + b"\r\n")
    assert b" 200 " in answer(client)
    monkeypatch.setattr(web_server, "HEAD_SECONDS", 0.05)
    with socket.create_connection(client.getpeername(), 30) as slow:
        slow.sendall(begun)
        assert answer(slow) == b""
    client.sendall(begun or HEAD)  # the next head of a connection that is kept
    while client.recv(65536):
        pass


@pytest.mark.parametrize(
    "field",
    [
        b'Cookie: a="%b"\r\n' % (rb"\1" * 8000),
        b'Content-Type: a/b;a="%b"\r\n' % (rb"\;" * 8000),
        b"Cookie: a=%b\r\n" % (b"b" * 1000) * 10,
        b"Content-Type: a/b;charset*=x'y'z\r\n",
    ],
    ids=["cookie", "type", "cookies", "charset"],
)
@pytest.mark.parametrize("path", [b"/sign-in/", b"/mcp", b"/static/none", b"/api/v1/tools"])
def test_header_that_takes_long_is_refused(
    client: socket.socket, path: bytes, field: bytes
) -> None:
    client.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n" + field + b"\r\n")
    assert int(answer(client).split()[1]) == 400


def test_longest_header_costs_less_than_half_a_password_hash(client: socket.socket) -> None:
    began = time.process_time()
    PBKDF2PasswordHasher().encode("x", "salt")
    hashing = time.process_time() - began
    most = (HEADER_BYTES - 6) // 2
    for field in (b'Cookie: a="%b"', b'Content-Type: a;a="%b"'):
        client.sendall(HEAD + field % (rb"\1" * most)[: HEADER_BYTES - 20] + b"\r\n\r\n")
        began = time.process_time()
        assert b" 200 " in answer(client)
        assert time.process_time() - began < hashing / 2


@pytest.mark.parametrize("path", [b"/live/", b"/mcp", b"/ai/stream", b"/sign-in/", b"/none"])
def test_upgrade_to_websocket_is_a_plain_request(client: socket.socket, path: bytes) -> None:
    client.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n" + UPGRADE)
    status = int(answer(client).split()[1])
    assert 200 <= status < 500
