"""200 stalled connections, 40 stalled readers and 50 bodies of 30 MB by strangers: the remaining
functions, their time and memory.

Run it with `-s` for the figures that docs/operate/operations.md shows.
"""

import contextlib
import shutil
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.doors import Door, answered, head, open_door, proxied
from tests.support.processes.programs import until

pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.timeout(300)]
FORM = "application/x-www-form-urlencoded"
STALLED = 200
READERS = 40
LARGEST = "/static/django_prose_editor/editor.js"  # of what strangers get through the proxy
LARGE = 50
LARGE_BYTES = 30 * 1024 * 1024
SLOW_SECONDS = 5.0  # generous, because the machine of a test is busy
GROWTH_MEGABYTES = 120


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    home: Path = tmp_path_factory.mktemp("exhaustion") / "home"
    with contextlib.ExitStack() as stack:
        alone = stack.enter_context(open_door(home))
        found = {"alone": alone}
        if shutil.which("caddy"):
            found["behind Caddy"] = stack.enter_context(proxied(alone))
        yield found


@pytest.fixture(params=["alone", "behind Caddy"])
def door(request: pytest.FixtureRequest, doors: dict[str, Door]) -> Door:
    if request.param not in doors:
        pytest.skip("caddy is not installed")
    doors[request.param].calls(20)  # warms it up
    return doors[request.param]


def probe(door: Door) -> tuple[float, float, list[float]]:
    """Return the seconds of /healthz, of the sign-in page, and of some REST calls."""
    return door.page("/healthz"), door.page("/sign-in/"), door.calls(20)


def report(
    what: str, before: list[float], found: tuple[float, float, list[float]], memory: list[float]
) -> None:
    healthz, sign_in, calls = found
    times = ", ".join(
        f"{name} {seconds * 1000:.0f} ms"
        for name, seconds in (
            ("healthz", healthz),
            ("sign-in", sign_in),
            ("REST median", statistics.median(calls)),
            ("REST worst", max(calls)),
            ("REST median before", statistics.median(before)),
        )
    )
    print(f"\n{what}: {times}, memory {memory[0]:.0f} MB, at most {max(memory):.0f} MB")  # noqa: T201


def test_stalled_connections_stop_nobody(door: Door, request: pytest.FixtureRequest) -> None:
    before, memory = door.calls(20), [door.megabytes()]
    began = time.monotonic()
    stalled = [
        door.announce("/sign-in/", 60_000, {"Content-Type": FORM}, b"x" * 1000)
        for _ in range(STALLED)
    ]
    try:
        found = probe(door)
        memory.append(door.megabytes())
        report(f"{request.node.callspec.id}, {STALLED} stalled", before, found, memory)
        assert max(found[0], found[1], *found[2]) < SLOW_SECONDS
        assert time.monotonic() - began < 30
        assert max(memory) - memory[0] < GROWTH_MEGABYTES
        if "Caddy" not in request.node.callspec.id:  # the proxy waits two minutes
            for client in stalled:
                status = answered(client, 25).split(b" ", 2)[1:2]
                assert status in ([b"408"], [b"503"], []), status
    finally:
        for client in stalled:
            client.close()


def begin_to_read(door: Door, path: str) -> socket.socket:
    """Ask for a page with small buffers, and read nothing of the answer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    client.connect(("127.0.0.1", door.port))
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return client


def test_stalled_readers_stop_nobody(door: Door, request: pytest.FixtureRequest) -> None:
    before, memory = door.calls(20), [door.megabytes()]
    stalled = [begin_to_read(door, LARGEST) for _ in range(READERS)]
    try:
        found = probe(door)
        memory.append(door.megabytes())
        report(f"{request.node.callspec.id}, {READERS} readers", before, found, memory)
        assert max(found[0], found[1], *found[2]) < SLOW_SECONDS
    finally:
        for client in stalled:
            client.close()


def test_large_bodies_of_strangers_cost_nothing(door: Door, request: pytest.FixtureRequest) -> None:
    before, memory = door.calls(20), [door.megabytes()]
    body = b'{"to":[' + b"[]," * (LARGE_BYTES // 3) + b"[]]}"
    statuses: list[bytes] = []

    def send() -> None:
        with contextlib.suppress(OSError), door.connect() as client:
            client.sendall(head("/api/v1/tools/send_email", {"Content-Length": str(len(body))}))
            with contextlib.suppress(OSError):  # refused before all of it was sent
                client.sendall(body)
            statuses.extend(answered(client).split(b" ", 2)[1:2])

    senders = [threading.Thread(target=send) for _ in range(LARGE)]
    for sender in senders:
        sender.start()
    found = probe(door)
    while any(sender.is_alive() for sender in senders):
        memory.append(door.megabytes())
        senders[0].join(0.05)
        next((sender for sender in senders if sender.is_alive()), senders[0]).join(0.05)
    until(lambda: not any(sender.is_alive() for sender in senders), seconds=60)

    report(f"{request.node.callspec.id}, {LARGE} bodies of 30 MB", before, found, memory)
    assert max(found[0], found[1], *found[2]) < SLOW_SECONDS
    assert max(memory) - memory[0] < GROWTH_MEGABYTES
    assert statuses
    assert set(statuses) <= {b"401", b"413", b"502", b"503"}
