"""The WSGI middleware: it reads a body within its limits and passes it on complete.

gunicorn waits for a slow client without a deadline, on the thread that serves the request. So a
body that is not complete at once takes one of few slots, and a client that sends too slowly is
disconnected.
"""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from django.db import close_old_connections
from django.http.request import HttpHeaders

from accounts.access.auth import ADMITTED
from accounts.access.room import busy
from accounts.infra.problems import Problem
from mailhub.intake import rules
from mailhub.intake.admission import Admitted, admit
from mailhub.intake.answers import Refusal, refuse, report_fault
from mailhub.intake.rules import BODIES, Asked, too_large, too_slow

Environ = dict[str, Any]
App = Callable[[Environ, Any], Iterable[bytes]]
# How many of the eight threads of a process may wait for bodies; the others serve other requests.
SLOW_STRANGERS = 2
SLOW_KNOWN = 4
AT_ONCE_SECONDS = 0.1  # a body that follows its headers at once is not slow
SOCKET = "gunicorn.socket"
LOOK_SECONDS = 0.25

_slow = {
    False: threading.BoundedSemaphore(SLOW_STRANGERS),
    True: threading.BoundedSemaphore(SLOW_KNOWN),
}


@dataclass(eq=False)
class Watched:
    """A client that sends a body. `cut` is True once it was too slow."""

    client: socket.socket
    began: float = field(default_factory=time.monotonic)
    received: int = 0
    cut: bool = False

    def note(self, received: int) -> None:
        """Store how many bytes have arrived so far."""
        self.received = received

    def is_late(self, now: float) -> bool:
        return now - self.began > rules.seconds_for(self.received)


class Cutter:
    """A watchdog for readers of slow clients: their `recv` returns as at the end of the stream.

    It has a thread of its own, because a thread that waits in recv cannot stop itself.
    """

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watch(self, client: socket.socket) -> Iterator[Watched]:
        """Watch a client for the duration of the block."""
        watched = Watched(client)
        with self._changed:
            if self._thread is None or not self._thread.is_alive():  # a fork does not copy it
                self._thread = threading.Thread(target=self._run, name="slow-bodies", daemon=True)
                self._thread.start()
            self._watched.add(watched)
            self._changed.notify()
        try:
            yield watched
        finally:
            with self._changed:
                self._watched.discard(watched)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._watched:
                    self._changed.wait()
                now = time.monotonic()
                for watched in [
                    each for each in self._watched if not each.cut and each.is_late(now)
                ]:
                    watched.cut = True
                    with contextlib.suppress(OSError):  # the client has disconnected
                        watched.client.shutdown(socket.SHUT_RD)
            time.sleep(LOOK_SECONDS)


_cutter = Cutter()


def limit_bodies(app: App) -> App:
    """Wrap a WSGI application: a body is admitted, limited and read before the application."""

    def door(environ: Environ, start_response: Any) -> Iterable[bytes]:
        try:
            asked = Asked.of(environ.get("PATH_INFO", ""), HttpHeaders(environ))
            if not asked.has_body:
                return app(environ, start_response)
        except Problem as problem:
            return _answer(environ, refuse(environ.get("PATH_INFO", ""), problem), start_response)
        return _with_body(app, asked, environ, start_response)

    return door


def _with_body(app: App, asked: Asked, environ: Environ, start_response: Any) -> Iterable[bytes]:
    stack = ExitStack()
    try:
        admitted = admit(asked)
        body = _read(environ, asked, admitted, stack.enter_context(BODIES.hold(admitted.person_id)))
    except Exception as error:
        stack.close()
        close_old_connections()
        problem = error if isinstance(error, Problem) else report_fault(error)
        return _answer(environ, refuse(asked.path, problem, asked.origin), start_response)
    environ["wsgi.input"] = BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    environ[ADMITTED] = admitted.caller
    try:
        return _Held(app(environ, start_response), stack)
    except BaseException:
        stack.close()
        raise


class _Held:
    """A response that releases the memory of its request's body when it is closed."""

    def __init__(self, response: Iterable[bytes], stack: ExitStack) -> None:
        self._response = response
        self._stack = stack

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._response)

    def close(self) -> None:
        try:
            close = getattr(self._response, "close", None)
            if close is not None:
                close()
        finally:
            self._stack.close()


def _read(environ: Environ, asked: Asked, admitted: Admitted, note: Callable[[int], None]) -> bytes:
    """Return the whole body; raise Problem 408, 413 or 503."""
    stream, client = environ["wsgi.input"], environ.get(SOCKET)
    if client is None:  # another server than gunicorn, whose socket we must not close
        return _read_pieces(stream, asked.length, admitted.limit, note)
    if asked.length is not None:
        note(asked.length)
        whole = _read_at_once(stream, client, asked.length)
        if whole is not None:
            return whole
        note(0)

    def arrive(received: int) -> None:
        note(received)
        watched.note(received)

    known = admitted.person_id is not None
    with _take_slow_slot(known=known), _cutter.watch(client) as watched:
        body = _read_pieces(stream, asked.length, admitted.limit, arrive)
        if watched.cut:
            raise too_slow()
    stream.failed = False
    return body


def _read_at_once(stream: Any, client: socket.socket, length: int) -> bytes | None:
    """Return the body if all of it has arrived, else None; gunicorn keeps the part that has arrived
    for the next read.

    gunicorn sets `failed` when a read finds nothing, and would close the connection after the
    answer.
    """
    until = time.monotonic() + AT_ONCE_SECONDS
    client.settimeout(0)
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                body = _check_complete(stream.read(length), length)
                stream.failed = False
                return body
            if not _wait_for_data(client, until - time.monotonic()):
                return None
    finally:
        client.settimeout(None)


def _wait_for_data(client: socket.socket, seconds: float) -> bool:
    with selectors.DefaultSelector() as selector:  # select(2) fails for sockets above number 1023
        selector.register(client, selectors.EVENT_READ)
        return seconds > 0 and bool(selector.select(seconds))


def _read_pieces(stream: Any, length: int | None, limit: int, note: Callable[[int], None]) -> bytes:
    pieces, received = list[bytes](), 0
    while length is None or received < length:
        # Never more than is missing or allowed, because gunicorn waits until it has all of it.
        piece = stream.read(min(rules.PIECE, (limit + 1 if length is None else length) - received))
        if not piece:
            break
        received += len(piece)
        if received > limit:
            raise too_large(limit)
        note(received)
        pieces.append(piece)
    return _check_complete(b"".join(pieces), length)


def _check_complete(body: bytes, length: int | None) -> bytes:
    if length is not None and len(body) < length:
        raise too_slow()  # we ended the stream, or the client did, which then gets no answer
    return body


@contextmanager
def _take_slow_slot(*, known: bool) -> Iterator[None]:
    if not _slow[known].acquire(blocking=False):
        raise busy()
    try:
        yield
    finally:
        _slow[known].release()


def _answer(environ: Environ, refusal: Refusal, start_response: Any) -> "_Refused":
    start_response(
        f"{refusal.status} {refusal.reason}",
        [pair for pair in refusal.headers if pair[0] != "Connection"],
    )
    return _Refused(environ, refusal.content)


class _Refused:
    """The answer; after it the rest of the body is dropped for a moment and the connection ends."""

    def __init__(self, environ: Environ, content: bytes) -> None:
        self._environ = environ
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content

    def close(self) -> None:
        client = self._environ.get(SOCKET)
        if client is None:
            return
        # gunicorn would read the rest for up to five seconds here, and then wait two more on the
        # thread that accepts connections.
        self._environ["wsgi.input"].failed = True
        with contextlib.suppress(OSError):  # the data has ended, or the client has disconnected
            _drop_rest(client)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _drop_rest(client: socket.socket) -> None:
    """Read on for a moment: otherwise a client that is sending loses the answer to a reset."""
    until, dropped = time.monotonic() + rules.LINGER_SECONDS, 0
    client.settimeout(rules.LINGER_SILENCE_SECONDS)
    while dropped < rules.LINGER_BYTES and time.monotonic() < until:
        piece = client.recv(rules.PIECE)
        if not piece:
            return
        dropped += len(piece)
