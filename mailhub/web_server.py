"""How the server (uvicorn) is run: the limits of a request's head, which comes before the intake.

A head has at most 64 KB and 10 seconds, as in the compose file's Caddy. uvicorn itself limits
neither size nor time.
"""

import asyncio
import os
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 10.0
FIRST_GIVEN = 3  # the number of the first socket that systemd passes: sd_listen_fds(3)
STREAMS_END_SECONDS = 2  # without a limit, an open stream prevents the end of the server


class TimedHeads(H11Protocol):
    """HTTP/1.1 that closes a connection whose next head is not complete in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timer()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # the head is complete, or wrong
            self._end_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


OPTIONS: dict[str, Any] = {
    "http": TimedHeads,
    "loop": "uvloop",
    "reset_contextvars": True,  # else a pipelined request goes on in the thread of the one before
    "h11_max_incomplete_event_size": HEAD_BYTES,
    "ws": "none",  # nothing here speaks it; an upgrade is answered as a plain request
    "lifespan": "off",
    "log_config": None,  # mailhub.operations.logs instead: uvicorn's access log would hold one-time links
    "access_log": False,
    "server_header": False,
    "timeout_graceful_shutdown": STREAMS_END_SECONDS,
    "timeout_worker_healthcheck": 30,  # a busy process is not dead
}


def find_given_sockets() -> list[socket.socket]:
    """Return the socket that systemd keeps open while the server is replaced; none without it."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    return [socket.socket(fileno=FIRST_GIVEN)]
