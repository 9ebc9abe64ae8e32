"""The memory for large bodies: what has arrived counts, and one person cannot take all of it."""

import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from accounts.infra.problems import Problem
from mailhub.intake import rules
from tests.conformance.served import SECONDS
from tests.conftest import Api
from tests.security.doors import answered, head
from tests.support.processes.programs import until

MEGABYTE = 1024 * 1024
LARGEST = 32 * MEGABYTE


def begin(url: str, path: str, api: Api, length: int, sent: int) -> socket.socket:
    """Announce a body, and send a part of it."""
    address = urlsplit(url)
    client = socket.create_connection((address.hostname, address.port), SECONDS)
    fields = {"Content-Length": str(length), "Authorization": f"Bearer {api.secret}"}
    client.sendall(head(path, {**fields, "Content-Type": "application/json"}) + b" " * sent)
    return client


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/mcp", "/api/v1/tools/send_email"])
def test_stalled_large_bodies_leave_room_for_others(
    url: str, path: str, api: Api, foreign_api: Api
) -> None:
    with ExitStack() as stack:
        for sent in (1, 1, 1, 1, LARGEST - 1):
            stack.enter_context(begin(url, path, api, LARGEST, sent))
        until(lambda: rules.BODIES.held.total() == LARGEST - 1, seconds=20)
        size = 2 * MEGABYTE
        own, other = (
            answered(stack.enter_context(begin(url, path, each, size, size))).split()[1]
            for each in (api, foreign_api)
        )
    assert (own, other) in ((b"503", b"400"), (b"503", b"422"))  # the other one is read: blanks
    until(lambda: not rules.BODIES.held)


def test_process_has_a_limit_of_large_bodies() -> None:
    with ExitStack() as stack:
        notes = [stack.enter_context(rules.BODIES.hold(person)) for person in range(5)]
        for note in notes[:4]:
            note(LARGEST)
        with pytest.raises(Problem):
            notes[4](2 * MEGABYTE)
        notes[0](0)
        notes[4](2 * MEGABYTE)
    assert not rules.BODIES.held
