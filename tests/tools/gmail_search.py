"""A search at Gmail over REST and by the provider, with waits that are recorded."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Api
from tests.support.people.gmail import ADA
from tests.support.servers.gmail import GmailServer
from tools.providers.gmail import GmailProvider
from tools.providers.gmail.client import GmailClient


@pytest.fixture
def search(api: Api) -> Callable[..., dict[str, Any]]:
    def search(query: str = "in:inbox", **arguments: Any) -> dict[str, Any]:
        answer = api.tool("gmail_search_messages", query=query, **arguments)
        assert answer.status_code == 200, answer.content
        result: dict[str, Any] = answer.json()
        return result

    return search


class Waits(list[float]):
    """A clock that only records the waiting times."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def provider(gmail: GmailServer, waits: Waits) -> GmailProvider:
    token = gmail.access_token(ADA)
    client = GmailClient(
        token=lambda _: token, key=ADA, base_url=gmail.url, answer_seconds=10, sleep=waits
    )
    return GmailProvider(client)
