"""A short connection to an MCP server of the operator, by Streamable HTTP.

Each call has a connection of its own: a server that was restarted needs no repair here. Nothing is
repeated, and no answer is longer than ANSWER_BYTES.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
import structlog
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client import Client
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    PaginatedRequestParams,
    TextContent,
)

from accounts.infra.database import give_back_connection
from accounts.infra.safe_hosts import tls_context
from tools.mail.text.redaction import make_storable
from tools.sending.held_commands import Lost, Reply, Unreachable
from tools.servers.config import McpServer
from tools.servers.schemas import expand

log = structlog.get_logger(__name__)
# They log answers that they cannot read, with their content.
for _name in ("client", "mcp.client", "mcp.shared"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

CONNECT_SECONDS = 10.0  # of each request before the call
CALL_SECONDS = 60.0
ALL_SECONDS = 120.0
ANSWER_BYTES = 1_000_000  # of each response
MOST_PAGES = 10
DESCRIPTION_CHARACTERS = 1000


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A tool as its server describes it."""

    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A connection that is ready for one call; `tools` are those that the operator has listed."""

    tools: Mapping[str, Listed]
    _portal: BlockingPortal
    _session: ClientSession

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """Call a tool once; raise Lost if no answer says how it ended."""
        request = CallToolRequest(
            params=CallToolRequestParams(name=tool, arguments=dict(arguments))
        )
        # Not the library's own call_tool, which refuses an answer that does not match the schema:
        # by then the tool has run.
        send = partial(self._session.send_request, request, CallToolResult, CALL_SECONDS)
        try:
            answer = self._portal.call(send)
        except MCPError as error:  # no code proves that the tool has not run
            said = error.error.message if error.error.code == INVALID_PARAMS else ""
            raise Lost(make_storable(said)) from None
        except Exception:  # the library's errors are many, and all mean that no answer was read
            raise Lost from None
        if answer.result_type != "complete":
            raise Lost
        return Reply(text=_text_of(answer), failed=bool(answer.is_error))


@contextmanager
def connect(server: McpServer, tool: str = "") -> Iterator[Connection]:
    """Yield a connection; raise Unreachable without one, or if the server lacks the tool."""
    give_back_connection()
    stack = ExitStack()
    try:
        try:
            portal = stack.enter_context(start_blocking_portal())
            opened = portal.wrap_async_context_manager(_open(server))
            session, tools = stack.enter_context(opened)
        except Exception as error:  # as in `call`
            log.warning("mcp_server_unreachable", error_type=type(error).__name__)
            raise Unreachable from None
        if tool and tool not in tools:
            raise Unreachable
        yield Connection(tools=tools, _portal=portal, _session=session)
    finally:
        with suppress(Exception):  # an error at the end changes nothing about the answer
            stack.close()


@asynccontextmanager
async def _open(
    server: McpServer,
) -> AsyncIterator[tuple[ClientSession, Mapping[str, Listed]]]:
    async with (
        asyncio.timeout(ALL_SECONDS),
        httpx2.AsyncClient(
            transport=_Bounded(verify=tls_context()),
            headers=server.headers,
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=CALL_SECONDS),
            trust_env=False,
        ) as http,
        Client(
            streamable_http_client(
                server.url,
                http_client=http,
                # Nothing may follow after the end of the time.
                terminate_on_close=False,
                max_sse_event_size=ANSWER_BYTES,
            ),
            read_timeout_seconds=CONNECT_SECONDS,
            cache=None,
        ) as client,
    ):
        yield client.session, await _list(client.session, {*server.read, *server.write})


async def _list(session: ClientSession, wanted: set[str]) -> Mapping[str, Listed]:
    """Return the wanted tools; one that a model cannot read is left out. The first of a name counts."""
    found: dict[str, Listed] = {}
    left = set(wanted)
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        for tool in page.tools:
            if tool.name not in left:
                continue
            left.remove(tool.name)
            about = make_storable(tool.description or "")[:DESCRIPTION_CHARACTERS]
            try:
                found[tool.name] = Listed(description=about, schema=expand(tool.input_schema))
            except ValueError:
                log.warning("mcp_tool_left_out", tool=tool.name)
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _text_of(answer: CallToolResult) -> str:
    """Return the texts of an answer; a line says what else there was."""
    parts = [
        part.text if isinstance(part, TextContent) else f"[left out: {part.type}]"
        for part in answer.content
    ]
    if not parts and answer.structured_content is not None:
        parts = [json.dumps(answer.structured_content, ensure_ascii=False)]
    return make_storable("\n".join(parts))


class _Unreadable(httpx2.ReadError):
    """An answer that is longer than ANSWER_BYTES, encoded, or a redirect."""


class _Bounded(httpx2.AsyncHTTPTransport):
    """HTTP without retries and redirects, whose answers end at ANSWER_BYTES.

    The library follows a redirect with the body and the secret, whatever its client allows.
    """

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"  # a short answer must not become a long one
        response = await super().handle_async_request(request)
        is_encoded = response.headers.get("Content-Encoding", "identity") != "identity"
        if is_encoded or response.is_redirect:
            await response.aclose()
            raise _Unreadable("encoded or moved")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > ANSWER_BYTES:
                raise _Unreadable("too long")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
