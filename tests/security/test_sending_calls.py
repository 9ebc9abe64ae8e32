"""The calls that send: made once, without following redirects, and in doubt unless it is certain
that nothing was sent.
"""

import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from tests.support.servers.http import QuickServer
from tests.support.servers.services import free_port
from tools.providers.errors import OutcomeUnknown, ProviderError, Refused, Unavailable
from tools.providers.gmail.client import GmailClient
from tools.providers.graph.client import ANSWER_LIMIT, GraphClient

Handler = Callable[[httpx2.Request], httpx2.Response]


def graph(handler: Handler) -> GraphClient:
    transport = httpx2.MockTransport(handler)
    return GraphClient(
        "http://graph.example/v1.0",
        "/me",
        tokens=lambda rejected: "a token",
        key="a mailbox",
        transport=transport,
        transports=lambda: httpx2.MockTransport(handler),
    )


def hand_over(handler: Handler) -> tuple[list[str], ProviderError | None]:
    """Send through Graph; return the events in order, and the error."""
    events: list[str] = []

    def noted(request: httpx2.Request) -> httpx2.Response:
        events.append(request.url.path)
        return handler(request)

    try:
        graph(noted).hand_over(
            "/sendMail", wire_started=lambda: events.append("wire"), answer_seconds=5
        )
    except ProviderError as error:
        return events, error
    return events, None


@pytest.mark.parametrize("status", [302, 307, 408, 500, 503])
def test_answer_without_verdict_leaves_it_unknown(status: int) -> None:
    elsewhere = {"Location": "http://graph.example/v1.0/me/elsewhere"}
    events, error = hand_over(lambda request: httpx2.Response(status, headers=elsewhere))
    assert isinstance(error, OutcomeUnknown)
    assert events == ["wire", "/v1.0/me/sendMail"]


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (httpx2.ConnectError, Unavailable), (httpx2.ConnectTimeout, Unavailable), (httpx2.ReadTimeout, OutcomeUnknown),
        (httpx2.WriteError, OutcomeUnknown), (httpx2.RemoteProtocolError, OutcomeUnknown),
    ],
)  # fmt: skip
def test_only_a_failed_connection_proves_that_nothing_left(
    raised: type[httpx2.RequestError], expected: type[ProviderError]
) -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        raise raised("no", request=request)

    error = hand_over(handler)[1]
    assert isinstance(error, expected)
    assert (getattr(error, "proof", None) is not None) is (expected is Unavailable)


def test_endless_answer_is_refused() -> None:
    too_much = b"x" * (ANSWER_LIMIT + 1)
    with pytest.raises(Refused) as refused:
        graph(lambda request: httpx2.Response(200, content=too_much)).get("/messages")
    assert refused.value.code == "too_large"


def gmail(base_url: str) -> GmailClient:
    return GmailClient(
        token=lambda rejected: "a token", key=base_url, base_url=base_url, answer_seconds=5
    )


def send(client: GmailClient) -> None:
    client.send(
        "drafts.send",
        lambda users: users.drafts().send(userId="me", body={"id": "r1"}),
        wire_started=lambda: None,
    )


def test_unreachable_gmail_has_sent_nothing() -> None:
    with pytest.raises(Unavailable):
        send(gmail(f"http://127.0.0.1:{free_port()}"))


def test_no_redirect_of_gmail_is_followed() -> None:
    with QuickServer() as server:
        server.expect_request("/gmail/v1/users/me/drafts/send").respond_with_data(
            "", status=307, headers={"Location": server.url_for("/elsewhere")}
        )
        server.expect_request("/elsewhere").respond_with_json({"id": "m1"})
        with pytest.raises(ProviderError):
            send(gmail(server.url_for("")))
        assert [request.path for request, _ in server.log] == ["/gmail/v1/users/me/drafts/send"]


@pytest.fixture
def connections() -> Iterator[tuple[str, list[int]]]:
    """Yield a server that keeps connections open: its address, and each client's port."""
    ports: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            ports.append(self.client_address[1])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", ports
        server.shutdown()


def read(client: GmailClient) -> None:
    client.read("getProfile", lambda users: users.getProfile(userId="me"))


def test_each_send_at_gmail_has_its_own_connection(connections: tuple[str, list[int]]) -> None:
    url, ports = connections
    for _ in range(2):
        send(gmail(url))
    assert len(set(ports)) == 2


@pytest.mark.filterwarnings(
    "ignore:.*multi-threaded.*:DeprecationWarning"
)  # the child only reads and exits
def test_forked_process_shares_no_connection_to_gmail(connections: tuple[str, list[int]]) -> None:
    url, ports = connections
    read(gmail(url))
    child = os.fork()
    if child == 0:
        try:
            read(gmail(url))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    read(gmail(url))
    parents, childs, again = ports
    assert childs != parents == again
