"""An SMTP server that is some way away: each of its answers takes a round trip."""

import socket
import time

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
