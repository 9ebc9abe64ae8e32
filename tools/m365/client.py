"""One connection for each process to the MCP server of the CLI for Microsoft 365, over standard
input and output.

It runs in a thread with its own event loop, so that callers may be threads or requests. It is
checked at intervals. When it is lost, it is opened again, at once the first time and then with
growing pauses.
"""

import asyncio
import atexit
import os
import shlex
import tempfile
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import TimeoutError as NotYet
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import structlog
from django.conf import settings
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent

from tools.sending.held_commands import Lost, Reply, Unreachable

log = structlog.get_logger(__name__)

TOOL = "m365_run_command"
CONNECT_SECONDS = 30.0  # npx may have to look up its package
PING_SECONDS = 10.0
RUN_SECONDS = 130.0  # the server ends a command after 120
LONGEST_PAUSE = 60.0
CLOSE_SECONDS = 8.0
START_SECONDS = 2.0  # of these, for a process that is just being started


@dataclass(frozen=True, kw_only=True)
class _Connection:
    client: Client
    lost: asyncio.Event = field(default_factory=asyncio.Event)


class M365Client:
    """A client that starts the server at the first call and keeps it running."""

    def __init__(self, command: Sequence[str], *, health_seconds: float) -> None:
        self._command = list(command)
        self._health_seconds = health_seconds
        self._loop = asyncio.new_event_loop()
        self._connected: asyncio.Future[_Connection] = self._loop.create_future()
        self._failures = 0  # failed attempts in a row; -1 while it works
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="m365", daemon=True)
        self._thread.start()

    def run(self, line: str) -> Reply:
        """Run one command line; raise Unreachable or Lost."""
        return self._from_here(self._run(line), CONNECT_SECONDS + RUN_SECONDS + PING_SECONDS)

    def close(self) -> None:
        """End the server."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(CLOSE_SECONDS)

    def _from_here(self, work: Coroutine[Any, Any, Reply], seconds: float) -> Reply:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except NotYet:
            future.cancel()
            raise Lost from None

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        with closing(self._loop):
            self._loop.run_until_complete(self._run_until_closed())

    async def _run_until_closed(self) -> None:
        # Cancel a scope, because cancelling the task would interrupt the library while it ends the
        # process cleanly.
        async with anyio.create_task_group() as group:
            group.start_soon(self._live)
            await self._closing.wait()
            # Cancelled while it starts the process, asyncio would leave that and its pipes behind.
            await asyncio.wait([self._connected], timeout=START_SECONDS)
            group.cancel_scope.cancel()
        self._notify_waiting()

    async def _run(self, line: str) -> Reply:
        connection = await self._connection()
        try:
            # The session's own call, because the client's would send it again if the server asks
            # for more input.
            answer = await connection.client.session.call_tool(
                TOOL, {"command": line}, read_timeout_seconds=RUN_SECONDS
            )
        except Exception:  # MCPError, or an answer that the library cannot read
            self._drop(connection)
            raise Lost from None
        text = "\n".join(part.text for part in answer.content if isinstance(part, TextContent))
        return Reply(text=text, failed=bool(answer.is_error))

    async def _connection(self) -> _Connection:
        if self._failures > 0:  # a pause must not delay a caller
            raise Unreachable
        return await asyncio.shield(self._connected)

    async def _live(self) -> None:
        while True:
            with tempfile.TemporaryDirectory(prefix="mailhub-m365-") as folder, suppress(Exception):
                await self._connect_in(folder)
            # A connection that worked is opened again at once.
            self._failures += 1
            log.warning("m365_server_lost", count=self._failures)
            if self._failures:
                self._notify_waiting()
            await asyncio.sleep(
                min(LONGEST_PAUSE, 2.0 ** (self._failures - 1)) if self._failures else 0
            )

    async def _connect_in(self, folder: str) -> None:
        """Connect, and stay until the connection is lost.

        Files that a command writes into its folder are deleted with the folder.
        """
        environment = {
            name: value for name, value in os.environ.items() if name.startswith("CLIMICROSOFT365_")
        }
        server = StdioServerParameters(
            command=self._command[0],
            args=self._command[1:],
            cwd=folder,
            env={"CLIMICROSOFT365_NOUPDATE": "1", **environment},
        )
        with open(os.devnull, "w") as nowhere:  # its messages may quote a command  # noqa: PTH123
            async with Client(
                stdio_client(server, errlog=nowhere), mode="legacy", cache=None
            ) as client:
                async with asyncio.timeout(CONNECT_SECONDS):
                    offered = {tool.name for tool in (await client.list_tools()).tools}
                if TOOL not in offered:
                    raise LookupError(TOOL)
                self._failures = -1
                connection = _Connection(client=client)
                self._connected.set_result(connection)
                log.info(
                    "m365_tools_loaded",
                    tool=",".join(settings.MCP_M365_TOOLS),
                    count=len(settings.MCP_M365_TOOLS),
                )
                await self._watch_until_lost(connection)

    async def _watch_until_lost(self, connection: _Connection) -> None:
        while not connection.lost.is_set():
            try:
                await asyncio.wait_for(connection.lost.wait(), self._health_seconds)
            except TimeoutError:
                try:
                    # The list of tools, because the protocol's own ping is being removed.
                    await asyncio.wait_for(connection.client.list_tools(), PING_SECONDS)
                except (MCPError, TimeoutError):
                    self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        """Drop the connection: from now on a call waits for the next one."""
        if not connection.lost.is_set():
            connection.lost.set()
            self._connected = self._loop.create_future()

    def _notify_waiting(self) -> None:
        if not self._connected.done():
            self._connected.set_exception(Unreachable())
            self._connected.exception()  # mark it as retrieved: nobody may have waited
            self._connected = self._loop.create_future()


_clients: dict[tuple[int, str, int], M365Client] = {}
_making = threading.Lock()


def m365_client() -> M365Client:
    """Return the connection of this process, as the settings describe it."""
    # A forked worker must not use its parent's pipes.
    key = (os.getpid(), settings.MCP_M365_START_CMD, settings.MCP_M365_HEALTH_INTERVAL_MS)
    with _making:
        if key not in _clients:
            _clients[key] = M365Client(shlex.split(key[1]), health_seconds=key[2] / 1000)
        return _clients[key]


@atexit.register
def close_all() -> None:
    """End the servers that this process started."""
    with _making:
        for key in [key for key in _clients if key[0] == os.getpid()]:
            _clients.pop(key).close()
