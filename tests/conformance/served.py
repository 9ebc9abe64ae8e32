"""The ASGI application on a loopback port, in a thread of the test's own process, and its
clients.
"""

import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import httpx2
import uvicorn
from mcp.client import Client
from mcp.client.extension import ClientExtension
from mcp.client.streamable_http import streamable_http_client

from mailhub.web_server import OPTIONS

SECONDS = 30.0  # bounds every wait
ERAS = ("legacy", "2026-07-28")
T = TypeVar("T")


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextmanager
def served(application: Any, *, unread_bytes: int | None = None, **more: Any) -> Iterator[str]:
    """Serve an ASGI application, and yield its address.

    `unread_bytes` is about what the system keeps for a client that does not read. `more` are options
    of uvicorn.
    """
    with socket.socket() as listener:
        if unread_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, unread_bytes)
        listener.bind(("127.0.0.1", 0))
        server = _Uvicorn(uvicorn.Config(application, **{**OPTIONS, **more}))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        assert server.ready.wait(SECONDS)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(SECONDS)
            assert not thread.is_alive()


@dataclass(frozen=True, kw_only=True)
class Door:
    """`/mcp` as a client with a token sees it."""

    url: str
    secret: str
    era: str = "2026-07-28"

    def session(
        self,
        work: Callable[[Client], Awaitable[T]],
        *,
        query: str = "",
        extensions: Sequence[ClientExtension] = (),
    ) -> T:
        """Run `work` with a connected client of the SDK."""

        async def run() -> T:
            with anyio.fail_after(SECONDS):
                async with (
                    httpx2.AsyncClient(
                        headers={"Authorization": f"Bearer {self.secret}"}, timeout=SECONDS
                    ) as http,
                    Client(
                        streamable_http_client(f"{self.url}/mcp{query}", http_client=http),
                        mode=self.era,
                        cache=None,
                        extensions=extensions,
                    ) as client,
                ):
                    return await work(client)

        return anyio.run(run)

    def raw(
        self, method: str = "POST", *, path: str = "/mcp", body: Any = None, **headers: str
    ) -> httpx2.Response:
        """Send one HTTP request as a program without an MCP library does."""
        sent = {"Authorization": f"Bearer {self.secret}", "Accept": "application/json", **headers}
        return httpx2.request(
            method,
            f"{self.url}{path}",
            headers={name: value for name, value in sent.items() if value},
            json=body,
            timeout=SECONDS,
        )
