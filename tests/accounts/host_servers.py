"""Names, listening sockets and TLS servers for tests about hosts that users name."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from accounts.infra import safe_hosts
from accounts.infra.safe_hosts import Endpoint

WAIT = 10.0  # seconds; no passing test waits for it
SHORT = 0.3  # seconds; for the tests of the limit itself
NAME = "mail.example.com"
REFUSAL = "This host cannot be used."


class Names:
    """A resolver that gives one prepared answer after another and records the questions."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self.answers = list(answers)
        self.questions: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.questions.append((host, port))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Canary:
    """A listening socket on loopback that counts connections."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.port: int = sock.getsockname()[1]

    def connections(self) -> int:
        """Return the number of connections since the last call. On loopback a connect that returned
        is in the queue.
        """
        self.sock.settimeout(0)
        count = 0
        while True:
            try:
                self.sock.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1


@pytest.fixture
def canary() -> Iterator[Canary]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield Canary(sock)


@contextmanager
def serving(talk: Callable[[socket.socket], bytes]) -> Iterator[tuple[int, Future[bytes]]]:
    """Serve one connection on loopback. Yield the port and a future of what `talk` returns."""
    heard: Future[bytes] = Future()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT)

        def serve() -> None:
            try:
                sock, _ = listener.accept()
                with sock:
                    sock.settimeout(WAIT)
                    heard.set_result(talk(sock))
            except Exception as error:
                heard.set_exception(error)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], heard
        finally:
            thread.join(WAIT)
            assert not thread.is_alive()


def tls_server(context: ssl.SSLContext, *, banner: bytes = b"") -> Callable[[socket.socket], bytes]:
    """Return a server that does the TLS handshake, sends its banner, and returns the application
    bytes received.
    """

    def talk(sock: socket.socket) -> bytes:
        try:
            with context.wrap_socket(sock, server_side=True) as secure:
                secure.sendall(banner)
                return b"".join(iter(lambda: secure.recv(1000), b""))
        except (ssl.SSLError, ConnectionError):
            return b""  # the client broke off inside the handshake

    return talk


def endpoint(
    host: str = NAME, *, port: int = 993, security: safe_hosts.Security = "tls"
) -> Endpoint:
    return Endpoint(host=host, port=port, security=security)
