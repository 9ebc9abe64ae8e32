"""A proxy that cuts connections at a chosen moment."""

import contextlib
import socket
import threading
from typing import Self

from tests.support.processes.programs import SECONDS


class CuttingProxy:
    """A proxy in front of PostgreSQL that cuts the connection at the first COMMIT: before it, or
    after.
    """

    def __init__(self, target: tuple[str, int], *, forward: bool) -> None:
        self._target = target
        self._forward = forward
        self.cuts = 0
        self._after = b""
        self._armed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def arm(self, *, after: bytes = b"") -> None:
        """Cut at the next COMMIT, once; with `after`, at the next one of a connection that has sent
        these bytes.
        """
        self._after = after
        self._armed.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target, timeout=SECONDS)
                server.settimeout(None)
                self._sockets += [client, server]
                for source, sink, asks in ((client, server, True), (server, client, False)):
                    threading.Thread(
                        target=self._pump, args=(source, sink), kwargs={"asks": asks}, daemon=True
                    ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, *, asks: bool) -> None:
        seen = False
        with contextlib.suppress(OSError):
            while content := source.recv(65536):
                seen = seen or (self._armed.is_set() and self._after in content)
                # A simple query: 'Q', length, text, NUL.
                if asks and seen and b"COMMIT\0" in content and self._armed.is_set():
                    self._armed.clear()
                    self.cuts += 1
                    if self._forward:
                        # The client disconnects before the answer comes.
                        source.shutdown(socket.SHUT_RDWR)
                        sink.sendall(content)
                        continue
                    break
                sink.sendall(content)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(SECONDS)
        for each in self._sockets:
            each.close()
