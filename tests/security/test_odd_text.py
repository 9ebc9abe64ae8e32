"""Odd text in the addresses, fields, bodies and headers of every door: none of them answers 5xx.

The choice of each address is random, and the same in each run.
"""

import json
import logging
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.signals import got_request_exception
from django.db import transaction
from django.test import Client

from accounts.models import User
from tests.conftest import Api
from tests.security.odd_text import HEADERS, VALUES, documents, encoded, field_names, tool_names
from tests.security.test_every_door import PUBLIC, URLS, Belongings, belongings
from tests.support.people.browser import browser, with_cookies

__all__ = ["belongings"]
pytestmark = pytest.mark.django_db
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
PROGRAMS = ("/api/", "/ai/", "/oauth/register")
Request = tuple[str, str, bytes, dict[str, str]]  # method, address, body and headers


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Drop the lines of the log: thousands of requests are refused."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def requests_of(
    path: str, form: dict[str, str], chance: random.Random, many: int
) -> Iterator[Request]:
    for value in chance.sample(VALUES, min(many, len(VALUES))):
        names = field_names() if len(value) < 100 else chance.sample(field_names(), 8)
        odd = encoded(dict.fromkeys(names, value))
        yield "GET", f"{path}?{odd}", b"", {}
        yield "POST", path, odd.encode(), {"Content-Type": FORM}
        if many > 1:
            one = {**form, chance.choice(names): value}
            yield "POST", path, encoded(one).encode(), {"Content-Type": FORM}
    if path.startswith(PROGRAMS):
        for body in chance.sample(list(documents(tool_names(path), chance)), 2 * many):
            yield "POST", path, body, {"Content-Type": JSON}
    for headers in chance.sample(HEADERS, min(many, len(HEADERS))):
        yield chance.choice(["GET", "POST"]), path, b"", headers


def ask(client: Client, method: str, address: str, body: bytes, headers: dict[str, str]) -> int:
    more: dict[str, Any] = {
        "HTTP_" + name.upper().replace("-", "_"): value
        for name, value in headers.items()
        if name != "Content-Type"
    }
    kind = headers.get("Content-Type", FORM)
    return int(client.generic(method, address, body, content_type=kind, **more).status_code)


@pytest.mark.parametrize("many", [1, pytest.param(12, marks=pytest.mark.long)])
@pytest.mark.parametrize("who", ["stranger", "administrator", "program"])
def test_no_door_fails_over_odd_text(
    who: str, many: int, belongings: Belongings, alice: User, api: Api
) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=True)
    signed_in = browser(alice).cookies
    callers: dict[str, Callable[[], Client]] = {
        "stranger": Client,
        "administrator": lambda: with_cookies(signed_in),
        "program": lambda: Client(headers={"Authorization": f"Bearer {api.secret}"}),
    }
    form = {name: str(value) for name, value in belongings.form.items()}
    failed: list[Any] = []
    errors: list[Any] = []

    def note(**_: Any) -> None:
        errors.append(sys.exc_info()[1])

    got_request_exception.connect(note)
    for name, route in URLS:
        path = belongings.address(route)
        if who == "program" and not path.startswith(PROGRAMS):
            continue
        if who == "stranger" and many == 1 and not (name in PUBLIC or path.startswith(PROGRAMS)):
            continue  # it leads to the sign-in before it reads anything
        for asked in requests_of(path, form, random.Random(f"{who} {route}"), many):
            with transaction.atomic():
                client = callers[who]()
                client.raise_request_exception = False
                if ask(client, *asked) in (500, 502):
                    failed.append(
                        (name, asked[0], asked[1][:200], asked[2][:200], asked[3], errors[-1:])
                    )
                transaction.set_rollback(True)
    got_request_exception.disconnect(note)
    assert failed == []


DEEP = b"[" * 10_000
NAMED = b'{"client_name":"%s","redirect_uris":["https://helper.example/cb"]}'


@pytest.mark.parametrize("body", [DEEP, b'{"a":' * 9000, NAMED % b"\\ud800", NAMED % b"a\\u0000b"])
def test_registration_refuses_odd_json(body: bytes) -> None:
    answer = Client().post("/oauth/register", body, content_type=JSON)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata")


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/device/code"])
def test_resource_that_is_no_address_is_refused(path: str) -> None:
    answer = Client().post(path, {"resource": "http://[::1", "client_id": "x"})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_target")


@pytest.mark.parametrize("address", ["?next=http://[::1", "?q=%00", "a%00b/"])
def test_odd_address_is_a_bad_request(address: str) -> None:
    assert Client().get(f"/sign-in/{address}").status_code == 400


@pytest.mark.parametrize("text", [DEEP.decode(), '{"id":"\\ud800"}', "a\x00b"])
def test_odd_passkey_is_a_bad_request(text: str) -> None:
    answer = Client().post("/account/factors/webauthn/login/", {"credential": text})
    assert answer.status_code == 400


def test_many_broken_texts_make_a_small_answer(api: Api) -> None:
    body = json.dumps({"n" * 30_000: ["\ud800"] * 3_000})
    bearer = {"Authorization": f"Bearer {api.secret}"}
    Client().post("/sign-in/", {"credential": "{}"})  # loads what the page needs
    tracemalloc.start()
    answer = Client().post("/api/v1/tools/list_emails", body, content_type=JSON, headers=bearer)
    page = Client().post("/sign-in/", f"credential={body}", content_type=FORM)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (answer.status_code, len(answer.json()["errors"]), page.status_code) == (422, 20, 400)
    assert len(answer.content) < 6_000
    assert peak < 100 * len(body)


def test_odd_cookie_is_a_bad_request() -> None:
    assert Client(headers={"Cookie": r'sessionid="a\000b"'}).get("/sign-in/").status_code == 400


@pytest.mark.parametrize("field", ["prompt", "threadId"])
@pytest.mark.parametrize("text", ["\\ud800", "a\\u0000b"])
def test_chat_refuses_odd_text(field: str, text: str, api: Api) -> None:
    body = f'{{"prompt": "Hello", "{field}": "{text}"}}'
    headers = {"Authorization": f"Bearer {api.secret}"}
    answer = Client(headers=headers).post("/ai/agent/stream", body, content_type=JSON)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_chat_takes_no_thread_with_a_line_break(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.secret}"}
    asked = {"prompt": "Hello", "threadId": "a\nX-Other: 1"}
    answer = Client(headers=headers).post("/ai/agent/stream", asked, content_type=JSON)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "threadId")


@pytest.mark.parametrize("charset", ["punycode", "base64", "zlib"])
@pytest.mark.parametrize("path", ["/compose/", "/api/v1/attachments"])
def test_form_in_an_odd_charset_is_refused_unread(api: Api, path: str, charset: str) -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n'
    body = head % b"x" + b"9" * 60_000 + b"\r\n" + head % b'file"; filename="a' + b"a\r\n--b--\r\n"
    headers = {"Authorization": f"Bearer {api.secret}"}
    for named, status in ((charset, 400), ("UTF-8", 302 if path == "/compose/" else 201)):
        kind = f"multipart/form-data; boundary=b; charset={named}"
        answer = Client().generic("POST", path, body, content_type=kind, headers=headers)
        assert answer.status_code == status
