"""Deadlines for conversations with foreign servers.

A socket's own timeout bounds one operation: a server that sends a byte now and then never reaches
it. A deadline ends the whole conversation, no matter which library uses the socket.
"""

import contextlib
import os
import socket
import threading


class Deadline:
    """The latest end of one conversation: at that moment the connection is shut down.

    A waiting operation then sees the end of the stream or an OSError. The caller must call `stop`
    when the conversation is over.
    """

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        # A descriptor of its own, because STARTTLS replaces the socket object, and a closed number
        # may belong to another connection by then.
        self._line = socket.socket(fileno=os.dup(sock.fileno()))
        self._lock = threading.Lock()
        self._passed = False
        self._timer = threading.Timer(max(seconds, 0.0), self._cut)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> bool:
        """End the deadline; return False if it has already passed."""
        self._timer.cancel()
        with self._lock:
            self._line.close()
            return not self._passed

    def _cut(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._passed = True
            # Closed here too, because an abandoned conversation may never call `stop`.
            with self._line as line:
                line.shutdown(socket.SHUT_RDWR)
