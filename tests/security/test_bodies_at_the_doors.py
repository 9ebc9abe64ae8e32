"""Nothing is read before the caller is known and the size is accepted, at both real servers."""

import json
import select
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.security.doors import Door, answered, head, open_door

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]
MEGABYTE = 1024 * 1024
FORM = "application/x-www-form-urlencoded"
TOOL = "/api/v1/tools/send_email"
SMALL_TOOL = "/api/v1/tools/read_email"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with open_door(tmp_path_factory.mktemp("doors") / "home") as found:
        yield found


def first_line(door: Door, path: str, length: int, **headers: str) -> str:
    """Return the first line of the answer to a body that is announced and never sent."""
    with door.announce(path, length, headers) as client:
        said = answered(client)
        assert said, "no answer while the body is missing"
    return said.decode().splitlines()[0]


@pytest.mark.parametrize(
    "path", [TOOL, "/api/v1/attachments", "/api/v1/webhooks", "/ai/agent/stream", "/ai/stream"]
)
def test_stranger_is_refused_before_the_body_arrives(door: Door, path: str) -> None:
    assert " 401 " in first_line(door, path, 30_000)
    assert " 401 " in first_line(door, path, 30_000, Authorization="Bearer mh_wrong")
    assert first_line(door, path, 40 * MEGABYTE).split()[1] in ("401", "413")


def test_mcp_refuses_a_stranger_before_the_body_arrives(door: Door) -> None:
    assert " 401 " in first_line(door, "/mcp", 30 * MEGABYTE)
    assert " 413 " in first_line(door, "/mcp", 40 * MEGABYTE, Authorization=f"Bearer {door.secret}")


@pytest.mark.parametrize("path", ["/sign-in/", "/compose/", "/no/such/page", "/admin/login/"])
def test_page_accepts_little_from_a_stranger(door: Door, path: str) -> None:
    assert " 413 " in first_line(door, path, MEGABYTE, **{"Content-Type": FORM})
    assert " 413 " in first_line(
        door, path, MEGABYTE, **{"Content-Type": FORM, "Cookie": "sessionid=none; csrftoken=x"}
    )


def test_refused_page_is_one_for_people(door: Door) -> None:
    answer = door.send("/sign-in/", b"a=" + b"x" * 100_000, Content_Type=FORM)
    assert answer.status == 413
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "65,536 bytes" in answer.text


def test_form_without_files_takes_no_multipart(door: Door) -> None:
    kind = "multipart/form-data; boundary=b"
    assert door.send("/sign-in/", b"--b--\r\n", Content_Type=kind).status == 400
    answer = door.send(
        SMALL_TOOL, b"--b--\r\n", Content_Type=kind, Authorization=f"Bearer {door.secret}"
    )
    assert (answer.status, answer.json()["code"]) == (400, "invalid_input")


def test_known_caller_learns_the_limit(door: Door) -> None:
    body = b'{"message_id": "' + b"x" * (2 * MEGABYTE) + b'"}'
    answer = door.send(
        SMALL_TOOL, body, Authorization=f"Bearer {door.secret}", Content_Type="application/json"
    )
    assert (answer.status, answer.headers["Content-Type"]) == (413, "application/problem+json")
    assert answer.json()["code"] == "too_large"
    assert "1,048,576" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b'{"query": ' + b"[" * 6000 + b"]" * 6000 + b"}", "nested"),
        (b'{"query": ' + b"[" * 90_000, "nested"),
        (b'{"to": [' + b"[]," * 200_000 + b"[]]}", "too many"),
        (b'{"to": [' + b"1," * 400_000 + b"1]}", "too many"),
        (b'{"to": ', "not JSON"),
        (b"[1]", "object"),
        (b'\xff\xfe{"a": 1}', "not JSON"),
    ],
)
def test_hostile_json_is_a_bad_request(door: Door, body: bytes, word: str) -> None:
    answer = door.send(
        TOOL, body, Authorization=f"Bearer {door.secret}", Content_Type="application/json"
    )
    assert (answer.status, answer.json()["code"]) == (400, "invalid_input"), answer.text
    assert word in answer.json()["detail"]


def test_hostile_json_is_refused_by_mcp_and_the_chat(door: Door) -> None:
    deep = b'{"prompt": ' + b"[" * 6000 + b"]" * 6000 + b"}"
    for path in ("/mcp", "/ai/stream", "/ai/agent/stream"):
        answer = door.send(
            path, deep, Authorization=f"Bearer {door.secret}", Content_Type="application/json"
        )
        assert answer.status == 400, (path, answer.text)
        assert "nested" in answer.json()["detail"]


def test_signed_in_person_can_send_a_long_form(door: Door) -> None:
    parts = (
        b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
        + b"x" * MEGABYTE
        + b"\r\n--b--\r\n"
    )
    for kind, body in ((FORM, b"a=" + b"x" * MEGABYTE), ("multipart/form-data; boundary=b", parts)):
        answer = door.send("/compose/", body, Content_Type=kind, Cookie=door.cookie)
        assert answer.status == 403, answer.text  # it has no CSRF token: the answer is Django's
    for cookie in ("sessionid=" + "a" * 32, door.cookie.replace("sessionid", "another")):
        assert (
            door.send("/compose/", b"a=" + b"x" * MEGABYTE, Content_Type=FORM, Cookie=cookie).status
            == 413
        )


def test_chunks_are_counted_as_they_arrive(door: Door) -> None:
    with door.connect() as client:
        client.sendall(head("/sign-in/", {"Transfer-Encoding": "chunked", "Content-Type": FORM}))
        client.sendall(b"18000\r\n" + b"x" * 0x18000 + b"\r\n")  # and no end
        assert b" 413 " in answered(client).splitlines()[0]


def test_body_in_chunks_arrives_whole(door: Door) -> None:
    with door.connect() as client:
        body = json.dumps({}).encode()
        fields = {"Transfer-Encoding": "chunked", "Authorization": f"Bearer {door.secret}"}
        client.sendall(head("/api/v1/tools/list_mailboxes", fields))
        client.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        assert b" 200 " in answered(client).splitlines()[0]


def test_slow_body_arrives_whole(door: Door) -> None:
    """Send it in pieces with pauses, so that the first read of the server finds no part of it."""
    text = "slow but honest " * 40_000
    body = json.dumps(
        {"to": ["a@b.example"], "subject": "s", "body": text, "confirm": False}
    ).encode()
    fields = {"Content-Length": str(len(body)), "Authorization": f"Bearer {door.secret}"}
    with door.connect() as client:
        client.sendall(head(TOOL, fields))
        for start in range(0, len(body), 100_000):
            time.sleep(0.05)  # the test needs the pause
            client.sendall(body[start : start + 100_000])
        said = answered(client)
    # It was parsed: the text is longer than a mail's may be.
    assert b" 422 " in said.splitlines()[0], said[:300]
    assert b"body" in said


def test_connection_serves_again_after_a_slow_body(door: Door) -> None:
    fields = {"Content-Length": "2", "Authorization": f"Bearer {door.secret}"}
    with door.connect() as client:
        for _ in range(2):
            client.sendall(head("/api/v1/tools/list_mailboxes", fields))
            time.sleep(0.05)  # the body comes late
            client.sendall(b"{}")
            assert b" 200 " in answered(client).splitlines()[0]


def test_stalled_bodies_leave_room_for_everybody_else(door: Door) -> None:
    # The server gives up a stalled body after ten seconds, which may be too few on a busy machine.
    assert any(is_served_beside_stalled_bodies(door) for _ in range(3))


def is_served_beside_stalled_bodies(door: Door) -> bool:
    """Return True if the server answers everybody else before it has given up the stalled bodies.

    It may refuse some of them at once.
    """
    with ExitStack() as stack:
        form = {"Content-Type": FORM}
        stalled = [
            stack.enter_context(door.announce("/sign-in/", 60_000, form, b"x" * 1000))
            for _ in range(20)
        ]
        door.page("/healthz")
        door.page("/sign-in/")
        door.calls(5)
        return len(select.select(stalled, [], [], 0)[0]) < len(stalled)
