"""An SMTP server that is some way away: each of its answers takes a round trip."""

import socket
import threading
import time
from collections.abc import Callable

from tests.support.servers.smtp import FaultySmtp, Point

ROUND_TRIP = 0.02
# Connecting takes one too, and the server has the mail only after the one of the final dot.
ANSWERED = ("connect", "greeting", "ehlo", "auth", "rset", "mail", "rcpt", "data", "dot", "quit")


class FarSmtp(FaultySmtp):
    """A server that is ROUND_TRIP seconds away from all of its clients."""

    def _meet(
        self, sock: socket.socket, point: Point, *, recipient: str | None = None
    ) -> bytes | None:
        if point in ANSWERED:
            time.sleep(ROUND_TRIP)
        return super()._meet(sock, point, recipient=recipient)


class Arrivals:
    """The time at which the mail server took the next mail."""

    def __init__(self, smtp: FaultySmtp) -> None:
        self._event = threading.Event()
        self._at = 0.0
        smtp.on_accept = lambda _: self._note()

    def _note(self) -> None:
        self._at = time.perf_counter()
        self._event.set()

    def after(self, start: Callable[[], object]) -> float:
        """Return the milliseconds from before the call until a mail has been accepted."""
        self._event.clear()
        began = time.perf_counter()
        start()
        assert self._event.wait(60), "no mail arrived"
        return (self._at - began) * 1000
