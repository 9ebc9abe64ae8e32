"""The chat over the wire: our ASGI application, a model's server, and a client that reads the
stream as a browser does.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from accounts.models import Mailbox, User
from mailhub.asgi import application
from tests.conformance.served import SECONDS, served
from tests.conftest import Api, Reviewer, make_api
from tests.support.servers.m365 import m365, npm_server
from tests.support.servers.model import ModelServer

__all__ = ["m365", "npm_server"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A stream that was read to its end."""

    status: int
    headers: dict[str, str]
    raw: str
    text: str = ""
    events: list[dict[str, str]] = field(default_factory=list)
    ended: bool = False

    @property
    def thread(self) -> str:
        return self.headers["x-thread-id"]

    def kinds(self) -> list[tuple[str, str]]:
        return [(event["event"], event["tool"]) for event in self.events]


def read(status: int, headers: dict[str, str], raw: str) -> Answer:
    """Parse a stream by its protocol: the `data:` lines of one event are joined by line breaks;
    JSON objects are ours.
    """
    text, events, ended = "", [], False
    for block in raw.split("\n\n"):
        lines = block.split("\n")
        data = "\n".join(
            line.removeprefix("data:").removeprefix(" ")
            for line in lines
            if line.startswith("data:")
        )
        if "event: end" in lines:
            assert data == "[DONE]"
            ended = True
        elif data.startswith("{") and len(data) > 1:
            events.append(json.loads(data))
        else:
            text += data
    return Answer(status=status, headers=headers, raw=raw, text=text, events=events, ended=ended)


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A client of the chat: with a token, or with a person's session."""

    url: str
    headers: dict[str, str]
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(self, prompt: Any, path: str = "/ai/agent/stream", **more: Any) -> Answer:
        with self.asking(prompt, path, **more) as response:
            response.read()
            return read(response.status_code, dict(response.headers), response.text)

    @contextmanager
    def asking(
        self, prompt: Any, path: str = "/ai/agent/stream", **more: Any
    ) -> Iterator[httpx2.Response]:
        """Yield the response while it streams."""
        with (
            httpx2.Client(timeout=SECONDS, cookies=self.cookies) as http,
            http.stream(
                "POST", self.url + path, json={"prompt": prompt, **more}, headers=self.headers
            ) as response,
        ):
            yield response


@pytest.fixture
def model(settings: Any) -> Iterator[ModelServer]:
    with ModelServer() as server:
        settings.AGENT_MODEL = "openai:scripted"
        settings.OPENAI_BASE_URL = server.url
        yield server


@pytest.fixture
def door(transactional_db: None) -> Iterator[str]:
    with served(application) as url:
        yield url


@pytest.fixture
def agent_api(alice: User, mailbox: Mailbox) -> Api:
    return make_api(alice, mailbox, name="assistant")


@pytest.fixture
def chat(door: str, model: ModelServer, agent_api: Api) -> Chat:
    return Chat(url=door, headers={"Authorization": f"Bearer {agent_api.secret}"})


@pytest.fixture
def person(door: str, model: ModelServer, mailbox: Mailbox, reviewer: Reviewer) -> Chat:
    """Return Alice's chat, signed in, on a page of ours."""
    reviewer.client.get("/sign-in/")
    reviewer.client.get("/mailboxes/")
    cookies = {name: morsel.value for name, morsel in reviewer.client.cookies.items()}
    return Chat(url=door, headers={"X-CSRFToken": cookies["csrftoken"]}, cookies=cookies)
