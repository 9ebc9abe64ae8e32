"""HTTP to hosts that users name: one exchange over a judged connection (accounts.infra.safe_hosts).

No redirect is followed, since it could lead inward, and no proxy of the environment is asked, since
it would resolve the name again.
"""

import contextlib
import http.client
import socket
from collections.abc import Collection, Iterator, Mapping

from accounts.infra.deadlines import Deadline
from accounts.infra.safe_hosts import Endpoint, connect


@contextlib.contextmanager
def exchanged(
    endpoint: Endpoint,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    seconds: float,
    ports: Collection[int],
    allow_loopback: bool,
    body: bytes | None = None,
) -> Iterator[http.client.HTTPResponse]:
    """Ask once; the answer can be read inside the block.

    `seconds` bounds the connection, and then all the rest.

    Raises HostError when no connection came about, OSError or http.client.HTTPException when the
    exchange failed.
    """
    sock = connect(endpoint, timeout=seconds, ports=ports, allow_loopback=allow_loopback)
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
    """HTTP on a socket that is connected already."""

    def __init__(self, endpoint: Endpoint, sock: socket.socket) -> None:
        super().__init__(endpoint.host, endpoint.port)
        if endpoint.security == "tls":
            self.default_port = 443  # so that the Host header names no port that the scheme implies
        self._ready = sock

    def connect(self) -> None:
        self.sock = self._ready
