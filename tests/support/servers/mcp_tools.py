"""An MCP server of somebody else, over Streamable HTTP: a wiki with pages to read and to write."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from starlette.responses import JSONResponse

from tests.conformance.served import served
from tools.servers.config import McpServer


@dataclass
class Wiki:
    """The server's record of calls; `drops` cuts the connection after a call has run.

    `moves` answers a call that has run with a redirect, `fails` with an error of JSON-RPC.
    """

    url: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    seen: list[str | None] = field(default_factory=list)  # the header with the secret
    drops: bool = False
    moves: bool = False
    fails: int = 0
    paths: list[str] = field(default_factory=list)  # of the calls
    answer: str = "The page says hello."
    listed: list[Any] = field(default_factory=list)  # if set, it lists them as they are

    def configured(self, **more: Any) -> McpServer:
        members = {"name": "wiki", "url": self.url, "read": ["find"], "write": ["save"], **more}
        return McpServer.model_validate(members)


@contextmanager
def running_wiki() -> Iterator[Wiki]:
    wiki = Wiki()
    server = MCPServer("wiki")

    @server.tool(description="Find a page.")
    def find(query: str) -> str:
        wiki.calls.append(("find", query))
        return wiki.answer

    @server.tool(description="Save a page.")
    def save(title: str, body: dict[str, Any]) -> str:
        wiki.calls.append(("save", {"title": title, "body": body}))
        if title == "locked":
            raise ToolError("the page is locked")
        return f"saved {title}"

    @server.tool(description="Delete all pages.")
    def wipe() -> str:
        wiki.calls.append(("wipe", None))
        return "gone"

    application = server.streamable_http_app()

    async def cut(scope: Any, receive: Any, send: Any) -> None:
        """Pass everything on, but list `listed`, and answer a call with half an answer while `drops`
        is set.
        """
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        wiki.seen.append(dict(scope["headers"]).get(b"authorization", b"").decode() or None)
        first = [await receive()]
        asked = json.loads(first[0].get("body") or b"{}")
        if wiki.listed and asked.get("method") == "tools/list":
            result = {"tools": wiki.listed, "resultType": "complete", "ttlMs": 0}
            result["cacheScope"] = "private"
            said = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
            await JSONResponse(said)(scope, receive, send)
            return

        async def take() -> Any:
            return first.pop() if first else await receive()

        async def swallow(message: Any) -> None:
            is_call = asked.get("method") == "tools/call"
            if is_call and message["type"] == "http.response.start":
                wiki.paths.append(scope["path"])
            if not (is_call and (wiki.drops or wiki.moves or wiki.fails)):
                await send(message)
            elif message["type"] == "http.response.start" and (wiki.moves or wiki.fails):
                error = {"code": wiki.fails, "message": "no structured content"}
                body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode()
                headers = [(b"content-type", b"application/json"), (b"location", b"/other/mcp")]
                status = 307 if wiki.moves else 200
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": body})
            elif message["type"] == "http.response.start":
                headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})

        await application(scope, take, swallow)

    with served(cut, lifespan="on") as url:
        wiki.url = f"{url}/mcp"
        yield wiki
