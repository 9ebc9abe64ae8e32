"""TLS in front of a server without TLS, so that the sandbox can be connected like a real
provider.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from asyncio import StreamReader, StreamWriter
from typing import Self

SECONDS = 60.0


class TlsRelay:
    """A relay that takes TLS connections and forwards the bytes in clear, both ways, until the
    block ends.

    One thread serves all of them: OpenSSL loses connections that two threads use at once.
    """

    def __init__(self, context: ssl.SSLContext, target: tuple[str, int]) -> None:
        self._context = context
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve_until_the_end())

    async def _serve_until_the_end(self) -> None:
        async with await asyncio.start_server(
            self._serve, sock=self._listener, ssl=self._context, ssl_shutdown_timeout=SECONDS
        ):
            await self._end.wait()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        both = [writer]
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
            both.append(server_writer)
            await asyncio.gather(_pass_on(reader, server_writer), _pass_on(server_reader, writer))
        except (OSError, asyncio.CancelledError):  # the end of the block cancels what is connected
            for each in both:
                each.transport.abort()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(SECONDS)


async def _pass_on(source: StreamReader, sink: StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while content := await source.read(65536):
            sink.write(content)
            await sink.drain()
    sink.close()
