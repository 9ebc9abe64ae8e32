"""Addresses of notifications that lead inside: other hosts, rebinding, redirects, slow answers."""

import socket
from collections.abc import Callable
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from accounts.models import User
from approvals.outbound.notifications.channels.web_push import public_key
from tests.approvals.channel_messages import channel_of, send
from tests.approvals.webhook_listener import httpserver
from tests.support.servers.push_service import PushService

__all__ = ["httpserver"]
pytestmark = pytest.mark.django_db
PUBLIC = "93.184.216.34"
INSIDE = [
    "127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254",
    "100.100.100.200", "192.168.1.1", "0.0.0.0", "2130706433", "0x7f.1", "[fd00:ec2::254]",
]  # fmt: skip
Names = Callable[..., Any]


def push_to(person: User, endpoint: str, server: HTTPServer) -> Any:
    service = PushService(server, server_key=public_key())
    return channel_of(person, "web_push", {**service.subscription, "endpoint": endpoint})


@pytest.mark.parametrize("host", INSIDE)
@pytest.mark.parametrize("kind", ["web_push", "jsons", "json", "ntfys", "gotifys", "workflows"])
def test_host_inside_is_never_connected(
    alice: User, httpserver: HTTPServer, settings: Any, host: str, kind: str
) -> None:
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = frozenset()
    place = f"{host}:{httpserver.port}"
    if kind == "web_push":
        channel = push_to(alice, f"https://{place}/push/one", httpserver)
    else:
        tail = {"workflows": "flow1/signature"}.get(kind, "secret")
        channel = channel_of(alice, "apprise", f"{kind}://{place}/{tail}")
    answer = send(channel)
    assert answer.result != "taken"
    assert answer.code in ("host_refused", "unreachable", "address_unusable", "subscribe_again")
    assert host not in answer.detail
    assert httpserver.log == []


@pytest.mark.parametrize("kind", ["web_push", "jsons"])
def test_name_is_resolved_once_and_checked_at_each_connection(
    alice: User,
    httpserver: HTTPServer,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = frozenset()
    asked: list[str] = []

    def rebinding(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        address = "127.0.0.1" if len(asked) % 2 else PUBLIC
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    if kind == "web_push":
        channel = push_to(alice, "https://push.example/push/one", httpserver)
    else:
        channel = channel_of(alice, "apprise", "jsons://push.example/hook")
    assert send(channel).result == "not_sent"
    assert asked == ["push.example"]  # one lookup, whose answer is the one that is checked
    assert httpserver.log == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", ["web_push", "json"])
def test_redirect_is_not_followed(
    alice: User, httpserver: HTTPServer, kind: str, status: int
) -> None:
    httpserver.expect_request("/first").respond_with_data(
        "", status=status, headers={"Location": httpserver.url_for("/inside")}
    )
    httpserver.expect_request("/inside").respond_with_data("a secret of the network")
    if kind == "web_push":
        channel = push_to(alice, httpserver.url_for("/first"), httpserver)
    else:
        channel = channel_of(alice, "apprise", f"json://127.0.0.1:{httpserver.port}/first")
    answer = send(channel)
    assert (answer.result, answer.code) == ("refused", f"http_{status}")
    assert [request.path for request, _ in httpserver.log] == ["/first"]


def test_proxy_of_the_environment_is_not_used(
    alice: User, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    httpserver.expect_request("/hook").respond_with_data("thanks")
    address = f"json://127.0.0.1:{httpserver.port}/hook"
    assert send(channel_of(alice, "apprise", address)).result == "taken"


def test_huge_answer_is_cut(alice: User, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/hook").respond_with_data("x" * 5_000_000, status=400)
    answer = send(channel_of(alice, "apprise", f"json://127.0.0.1:{httpserver.port}/hook"))
    assert answer.result == "refused"
    assert len(answer.detail) < 400
