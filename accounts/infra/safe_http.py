"""HTTP to hosts that users name: one exchange over a connection of accounts.infra.safe_hosts.

No redirect is followed, because it could lead to an internal host. No proxy of the environment is
used, because it would resolve the name again.
"""

import contextlib
import http.client
import socket
from collections.abc import Collection, Iterator, Mapping

from django.conf import settings

from accounts.infra.deadlines import Deadline
from accounts.infra.safe_hosts import Endpoint, connect


@contextlib.contextmanager
def exchange(
    endpoint: Endpoint,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    seconds: float,
    ports: Collection[int],
    body: bytes | None = None,
) -> Iterator[http.client.HTTPResponse]:
    """Send one request and yield the answer, which can be read inside the block.

    `seconds` bounds the connection, and then all the rest.

    Raises HostError if there is no connection, and OSError or http.client.HTTPException if the
    exchange fails.
    """
    loopback = settings.MAILHUB_LOOPBACK_FOR_PEOPLE
    sock = connect(endpoint, timeout=seconds, ports=ports, loopback=loopback)
    deadline = Deadline(sock, seconds)
    connection = _Pinned(endpoint, sock)
    try:
        connection.request(method, path, body, {"Connection": "close", **headers})
        yield connection.getresponse()
    finally:
        deadline.stop()
        connection.close()
        sock.close()


class _Pinned(http.client.HTTPConnection):
    """HTTP on a socket that is already connected."""

    def __init__(self, endpoint: Endpoint, sock: socket.socket) -> None:
        super().__init__(endpoint.host, endpoint.port)
        if endpoint.security == "tls":
            self.default_port = 443  # so that the Host header names no port that the scheme implies
        self._ready = sock

    def connect(self) -> None:
        self.sock = self._ready
