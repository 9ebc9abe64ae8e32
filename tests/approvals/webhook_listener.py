"""A program that receives webhooks."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from pytest_httpserver import HTTPServer
from standardwebhooks import Webhook as Receiver
from werkzeug import Request, Response

from approvals.models import WebhookDelivery
from tests.conftest import Api
from tests.support.documented import check_message
from tests.support.loopback import on_ports
from tests.support.servers.http import QuickServer

CANARY = "Canary-7731"


class Listener:
    """A program that receives events; it checks each signature with the library of receivers."""

    def __init__(self, server: HTTPServer) -> None:
        self.url = server.url_for("/hook?for=us")
        self.secret = ""
        self.heard: list[dict[str, Any]] = []
        self.numbers: list[str] = []
        self.content = False  # True if the messages may hold the words of people
        self.meanwhile: Callable[[], object] = lambda: None
        self.answers: list[int] = []  # for the next messages; 200 when the list is empty
        server.expect_request("/hook", method="POST", query_string="for=us").respond_with_handler(
            self._take
        )

    def _take(self, request: Request) -> Response:
        body = request.get_data()
        message = Receiver(self.secret).verify(body, dict(request.headers))
        check_message(message)
        self.heard.append(message)
        self.numbers.append(request.headers["webhook-id"])
        assert self.content or CANARY.encode() not in body
        self.meanwhile()
        return Response(status=self.answers.pop(0) if self.answers else 200)

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.heard]

    def added(self, api: Api, **body: Any) -> str:
        """Add it by REST, and return the id."""
        answer = api.post("/webhooks", {"url": self.url, **body})
        assert answer.status_code == 201, answer.content
        self.secret = answer.json()["secret"]
        return str(answer.json()["id"])


@pytest.fixture
def httpserver(settings: Any) -> Iterator[HTTPServer]:
    with QuickServer(threaded=True) as server:
        settings.MAILHUB_LOOPBACK_FOR_PEOPLE = on_ports(server.port)
        yield server


@pytest.fixture
def listener(httpserver: HTTPServer) -> Iterator[Listener]:
    yield Listener(httpserver)
    httpserver.check()


def told() -> None:
    call_command("maintain")


def hurried() -> None:
    """Make every waiting attempt due."""
    WebhookDelivery.objects.filter(next_at__isnull=False).update(
        next_at=timezone.now() - timedelta(seconds=1)
    )
