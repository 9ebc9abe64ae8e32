"""TLS in front of a server without TLS, so that the sandbox can be connected like a real
provider.
"""

import contextlib
import socket
import ssl
import threading
from types import TracebackType
from typing import Self

from tests.support.servers.listening import pass_on

SECONDS = 60.0


class TlsRelay:
    """A relay that takes TLS connections and forwards the bytes in clear, both ways, until the
    block ends.
    """

    def __init__(self, context: ssl.SSLContext, target: tuple[str, int]) -> None:
        self._context = context
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            client.settimeout(SECONDS)
            inside = self._context.wrap_socket(client, server_side=True)
            server = socket.create_connection(self._target, timeout=SECONDS)
            self._sockets += [inside, server]
            threading.Thread(target=pass_on, args=(server, inside), daemon=True).start()
            pass_on(inside, server)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(SECONDS)
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
