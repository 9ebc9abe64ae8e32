"""Clients that send or read slowly hold no thread and no database connection, over ASGI."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgiref.sync import SyncToAsync

from mailhub.asgi import application
from tests.conformance.served import SECONDS, served
from tests.conftest import Api
from tests.security.doors import head
from tests.security.test_silent_mailboxes import count_borrowed
from tests.support.processes.programs import until

pytestmark = pytest.mark.django_db(transaction=True)
CLIENTS = 6
COOKIE = f"sessionid={'a' * 32}"  # of a stranger: it is looked up and not found
ANSWERS = 1000  # more than the buffers of a connection hold


class Counted:
    """The application, and how many of its answers wait for their readers."""

    sending = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def count(message: Any) -> None:
            self.sending += 1
            await send(message)
            self.sending -= 1

        await application(scope, receive, count)


@pytest.fixture
def app() -> Counted:
    return Counted()


@pytest.fixture
def url(app: Counted) -> Iterator[str]:
    with served(app, unread_bytes=4096) as address:
        yield address


def count_threads() -> int:
    """Return how many requests have a thread."""
    return len(SyncToAsync.context_to_thread_executor)


@pytest.mark.parametrize("path", ["/sign-in/", "/api/v1/tools/send_email", "/mcp"])
def test_slow_body_holds_no_thread_and_no_connection(url: str, api: Api, path: str) -> None:
    address = urlsplit(url)
    fields = {"Transfer-Encoding": "chunked", "Expect": "100-continue", "Cookie": COOKIE}
    if path != "/sign-in/":
        fields["Authorization"] = f"Bearer {api.secret}"
    connections, threads = count_borrowed(), count_threads()
    with ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(
                socket.create_connection((address.hostname, address.port), SECONDS)
            )
            client.sendall(head(path, fields))
            assert b" 100 " in client.recv(1000)  # it is admitted, and the server waits
        until(lambda: count_threads() <= threads)
        until(lambda: count_borrowed() <= connections)


def send_as_long_as_it_reads(client: socket.socket, asked: bytes) -> None:
    with suppress(OSError):
        client.sendall(asked * ANSWERS)


def test_unread_answers_hold_no_thread_and_no_connection(url: str, app: Counted) -> None:
    address = urlsplit(url)
    asked = head("/mcp", {"Authorization": "Bearer mh_wrong", "Content-Length": "0"})
    connections, threads = count_borrowed(), count_threads()
    with ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            client.connect((address.hostname, address.port))
            threading.Thread(target=send_as_long_as_it_reads, args=(client, asked)).start()
        until(lambda: app.sending == CLIENTS and count_threads() <= threads)
        until(lambda: count_borrowed() <= connections)
