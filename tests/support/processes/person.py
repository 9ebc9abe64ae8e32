"""A person with a browser without scripts, and requests over HTTP."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from tests.support.processes.programs import SECONDS


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to an HTTP request."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def text(self) -> str:
        return self.content.decode()


def request(
    url: str,
    method: str = "GET",
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request without following redirects, and return the answer."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return Answer(status=response.status, headers=response.msg, content=response.read())
    finally:
        connection.close()


class Forms(HTMLParser):
    """The forms of a page by their `data-action`: address, and the fields that a browser would send
    by itself.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, tuple[str, dict[str, str]]] = {}
        self.at: dict[str, dict[str, str]] = {}  # the same fields by the form's target address
        self._open: dict[str, str] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and given.get("method", "").lower() == "post":
            self._open = {}
            self.found[given.get("data-action", "")] = (given.get("action", ""), self._open)
            self.at[given.get("action", "")] = self._open
        elif tag == "input" and given.get("type") == "hidden" and self._open is not None:
            self._open[given["name"]] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None


class Person:
    """A person with a browser that runs no scripts: cookies, pages, and the forms on them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._cookies = SimpleCookie()

    @property
    def cookie(self) -> str:
        """Return the header that holds all cookies."""
        return "; ".join(f"{name}={morsel.value}" for name, morsel in self._cookies.items())

    def at(self, url: str) -> Self:
        """Go on at a server that has another port now, and return this person."""
        self._url = url
        return self

    def get(self, path: str) -> Answer:
        return self._go("GET", path)

    def submit(self, path: str, action: str, **changes: str) -> Answer:
        """Open a page and send the form with that `data-action`, with the fields of the page."""
        page = self.get(path)
        forms = Forms(page.text).found
        assert action in forms, f"{path} answers {page.status} with the forms {sorted(forms)}"
        address, fields = forms[action]
        return self.post(address or path, fields | changes)

    def post(self, path: str, fields: Mapping[str, str]) -> Answer:
        return self._go("POST", path, fields)

    def _go(self, method: str, path: str, fields: Mapping[str, str] | None = None) -> Answer:
        headers = {"Cookie": self.cookie}
        body = None
        if fields is not None:
            body = urlencode(fields).encode()
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._url}
        answer = request(
            path if "://" in path else self._url + path, method, body=body, headers=headers
        )
        for cookie in answer.headers.get_all("Set-Cookie") or []:
            self._cookies.load(cookie)
        return answer
