"""Clients that send or read slowly, or hang up, hold no thread and no database connection, over ASGI."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgiref.sync import SyncToAsync
from django_structlog.signals import bind_extra_request_finished_metadata as about_to_answer

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
HANG_UPS = 20  # every third or so was early enough to cancel the return of its connection


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


async def hang_up(turns: int) -> None:
    """Send a request, and disconnect so many turns of the event loop after its page is made."""
    loop, made, asked = asyncio.get_running_loop(), asyncio.Event(), False

    def note(**_: Any) -> None:
        loop.call_soon_threadsafe(made.set)

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await made.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        """Drop the answer."""

    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
    }
    scope |= {"path": "/sign-in/", "query_string": b"", "client": ("127.0.0.1", 1)}
    headers = [(b"host", b"127.0.0.1"), (b"cookie", COOKIE.encode())]
    about_to_answer.connect(note)
    try:
        await application({**scope, "headers": headers}, receive, send)
    finally:
        about_to_answer.disconnect(note)


@pytest.mark.postgres_only
def test_readers_who_hang_up_cost_no_connection() -> None:
    async def hang_up_again_and_again() -> None:
        for turns in range(HANG_UPS):
            await hang_up(turns)

    connections = count_borrowed()
    asyncio.run(hang_up_again_and_again())
    until(lambda: count_borrowed() <= connections)
