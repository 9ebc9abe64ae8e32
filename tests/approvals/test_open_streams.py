"""Many open streams: they hold no thread and no database connection, and have a limit."""

import socket
import threading
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx2
import pytest
from django.test import Client

from accounts.infra import streams
from accounts.models import User
from tests.conformance.served import Door
from tests.conftest import Api
from tests.support.people.browser import sign_in
from tests.support.processes.programs import until

pytestmark = pytest.mark.django_db(transaction=True)
POOL = 10  # connections of a process
SECONDS = 60


def cookie_of(number: int) -> str:
    person = User.objects.create_user(f"person{number}@lovelace.example")
    client = Client()
    sign_in(client, person)
    return client.cookies["sessionid"].value


def open_stream(url: str, cookie: str) -> socket.socket:
    """Return a connection whose stream has begun, or has been refused."""
    address = urlsplit(url)
    client = socket.create_connection((address.hostname, address.port), SECONDS)
    head = f"GET /live/ HTTP/1.1\r\nHost: {address.netloc}\r\nCookie: sessionid={cookie}\r\n\r\n"
    client.sendall(head.encode())
    return client


def first_bytes(client: socket.socket, wanted: bytes) -> bytes:
    said = b""
    while wanted not in said:
        piece = client.recv(4096)
        assert piece, said
        said += piece
    return said


@pytest.mark.parametrize("people", [2, pytest.param(15, marks=pytest.mark.long)])
def test_open_streams_leave_connections_and_threads_to_others(
    url: str, people: int, api: Api
) -> None:
    wanted = people * streams.OF_PERSON
    assert wanted > POOL
    door = Door(url=url, secret=api.secret)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with ExitStack() as stack:
        before = threading.active_count()
        for number in range(people):
            cookie = cookie_of(number)
            for _ in range(streams.OF_PERSON):
                client = stack.enter_context(open_stream(url, cookie))
                assert b" 200 " in first_bytes(client, b"retry: 3000").splitlines()[0]
            refused = stack.enter_context(open_stream(url, cookie))
            assert b" 204 " in first_bytes(refused, b"\r\n\r\n").splitlines()[0]
        until(lambda: threading.active_count() - before < POOL)
        for path in ("/api/v1/mailboxes", "/sign-in/", "/healthz"):
            assert door.raw("GET", path=path).status_code == 200, path
        assert door.raw("GET", path="/readyz").status_code in (200, 503)  # no worker runs here
        assert door.raw(body=asked).status_code == 200
    until(lambda: not len(streams._taken))


def test_process_has_a_limit_of_streams() -> None:
    async def nothing() -> AsyncGenerator[str, None]:
        yield ""

    places = filter(None, map(streams.take_place, range(500)))
    held = [streams.stream(place, nothing(), content_type="text/plain") for place in places]
    assert len(held) == 500
    assert streams.take_place(1000) is None
    held.pop()
    assert streams.take_place(1000) is not None


def test_streams_opened_at_the_same_time_have_a_limit(url: str, api: Api) -> None:
    cookie = cookie_of(0)
    with ExitStack() as stack:
        clients = [
            stack.enter_context(open_stream(url, cookie)) for _ in range(3 * streams.OF_PERSON)
        ]
        begun = [first_bytes(client, b"\r\n\r\n").split()[1] for client in clients]
    assert begun.count(b"200") == streams.OF_PERSON
    assert begun.count(b"204") == 2 * streams.OF_PERSON
    until(lambda: not len(streams._taken))


@pytest.mark.parametrize("reader", ["stranger", "member"])
def test_page_learns_nothing_readable_about_other_mailboxes(
    reader: str, url: str, api: Api, alice: User, charlie: User
) -> None:
    api.propose()
    client = Client()
    sign_in(client, alice if reader == "member" else charlie)
    cookies = {"sessionid": client.cookies["sessionid"].value}
    marks = [
        httpx2.get(f"{url}/live/changes/", cookies=cookies, timeout=SECONDS).json()["last"]
        for _ in range(2)
    ]
    assert not marks[0].isdecimal()
    assert marks[0] != marks[1]
