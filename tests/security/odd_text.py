"""Text that no form expects, and the names of all fields that the product reads."""

import json
import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import quote

from django import forms

from tests.support.sources import product
from tools.catalog.entries import TOOLS

DEEP = 2000
VALUES = [
    "a\x00b",
    "\x00",
    "a\ud800b",
    "\udfff",
    "a\x1b\x07\x08b",
    "a\r\nX-Other: 1",
    "\u2028\u202e\ufeff",
    "\U000e0001\U0010ffff",
    "[" * DEEP,
    '{"a":' * DEEP,
    '{"id":"\\ud800","response":{}}',
    '{"id":"\\u0000","response":{"clientDataJSON":1}}',
    "null",
    "[[1]]",
    "9" * 5000,
    "-1",
    "0",
    str(2**31),
    str(2**63),
    "1e999",
    "NaN",
    "²",
    "٣",
    "http://[::1",
    "https://[::1/cb",
    "https://a:99999/",
    "https://\u0430.example/",
    "//evil.example/\\",
    "https://host.example/" + "x" * 3000,
    "user@[",
    "%00%ED%A0%80",
    "../../etc/passwd",
    "(" * 3000,
    "é" * 5000,
    "0001-01-01",
    "9999-12-31T23:59",
    "2026-99-99T99:99",
    "Mars/Olympus",
    "xx-yy",
    "",
    " ",
]
HEADERS = [
    {"Accept-Language": "x" * 9000},
    {"Accept-Language": "de;q=1e999, \xff"},
    {"Accept": "*/*;q=\xff, a/b;c"},
    {"Authorization": "Basic AAAA"},
    {"Authorization": "Basic \xff"},
    {"Authorization": "Basic /////w=="},
    {"Authorization": "Bearer \x01\xff" + "a" * 3000},
    {"X-API-Key": "\xff\x01"},
    {"Cookie": 'sessionid="\\000"; csrftoken="\\000"'},
    {"Cookie": "sessionid=" + "a" * 5000 + "; mailhub_language=../x; mailhub_zone=../../x"},
    {"Content-Type": "application/x-www-form-urlencoded; charset=utf-7"},
    {"Content-Type": "text/plain; charset=utf-16-surrogatepass"},
    {"Content-Type": "text/plain; charset=punycode"},
    {"Content-Type": "text/plain; charset=idna"},
    {"Content-Type": "multipart/form-data; boundary=" + "b" * 300},
    {"Content-Type": "application/json; charset=\xff"},
    {"Idempotency-Key": "\xff\x01"},
    {"X-Request-ID": "x' y=\"1\xff"},
    {"If-None-Match": "*, \xff"},
    {"If-Modified-Since": "Mon, 99 Jan 0000 99:99:99 GMT"},
    {"Prefer": "wait=" + "9" * 40},
    {"Range": "bytes=-1-"},
    {"Origin": "http://[::1"},
    {"Origin": "null"},
    {"Referer": "http://[::1/"},
    {"Host": "[::1"},
    {"Host": "a:99999"},
    {"X-Forwarded-For": "\xff, x"},
    {"X-Forwarded-Host": "[", "X-Forwarded-Proto": "\x01"},
    {"Last-Event-ID": "²"},
]


@cache
def field_names() -> list[str]:
    """Return the names of all parameters, fields of forms, and arguments of tools."""
    read = re.compile(r'(?:GET|POST|FILES|asked|query)(?:\.get|\.getlist)?[(\[]"(\w+)"')
    found = {name for text in product().values() for name in read.findall(text)}
    found |= {name for form in _forms(forms.BaseForm) for name in getattr(form, "base_fields", ())}
    return sorted(found)


def _forms(base: type[Any]) -> Iterator[type[Any]]:
    for each in base.__subclasses__():
        yield each
        yield from _forms(each)


def encoded(fields: dict[str, str]) -> str:
    """Return a query or a form; half a surrogate pair is written as its three bytes."""
    return "&".join(
        f"{quote(name)}={quote(text.encode('utf-8', 'surrogatepass'))}"
        for name, text in fields.items()
    )


def tool_names(path: str) -> list[str]:
    """Return the arguments of the tool at an address; of any if it is no tool's."""
    tool = TOOLS.get(path.rpartition("/")[2])
    if tool is not None:
        return list(tool.parameters.model_fields)
    return ["url", "events", "prompt", "threadId", "mode", "client_name", "redirect_uris", "scope",
            "grant_types", "response_types", "token_endpoint_auth_method", "contacts", "jwks"]  # fmt: skip


def documents(names: list[str], chance: random.Random) -> Iterator[bytes]:
    """Yield bodies that are meant to be JSON: odd ones, and ones with odd values."""
    yield b"[" * DEEP
    yield b'{"a":' * DEEP
    yield b'{"a": ' + b"9" * 5000 + b"}"
    yield b'{"a": 1e999, "b": NaN}'
    yield b'{"a": "\xff"}'
    yield b'{"a": "\xed\xa0\x80"}'
    yield '{"a": "x"}'.encode("utf-16")
    yield b"\x00"
    yield b"null"
    for value in (
        *VALUES,
        1e999,
        10**400,
        -1,
        True,
        None,
        [],
        {},
        [[["x"]]],
        {"a\x00": {"\ud800": 1}},
        ["\x00"],
        [{"a": "\ud800"}],
    ):
        yield json.dumps(dict.fromkeys(names, value)).encode()
        if names:
            yield json.dumps({chance.choice(names): value}).encode()
