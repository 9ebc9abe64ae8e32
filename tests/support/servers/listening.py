"""A server for tests on 127.0.0.1 by plain sockets, so that other processes can reach it by its
port.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Self

SECONDS = 60  # no passing test waits so long


class Listening:
    """A server that accepts connections on its own port and serves each in a thread, until the
    block ends.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.errors: list[BaseException] = []
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closing = False

    def serve(self, sock: socket.socket) -> None:
        """Serve one connection, from accept to end; OSError ends it."""
        raise NotImplementedError

    def cut(self) -> None:
        """End all current connections."""
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes up a thread that waits in accept()
        self.cut()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive(), "a connection did not end"
        self._listener.close()
        if error is None and self.errors:
            raise self.errors[0]

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with self._lock:
                self._open.add(sock)
            self._start(self._serve_and_close, sock)

    def _serve_and_close(self, sock: socket.socket) -> None:
        try:
            self.serve(sock)
        except OSError:
            pass  # one side has disconnected
        except BaseException as error:
            self.errors.append(error)
        finally:
            with self._lock:
                self._open.discard(sock)
            sock.close()


def pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Pass on everything, and end both connections with the first of them."""
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            sink.sendall(content)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
