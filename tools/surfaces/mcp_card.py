"""MCP Apps (`io.modelcontextprotocol/ui`): a read-only card of a proposal, for hosts that show it.

The card shows the state and opens the review page. It has no decision, and holds no data: the host
gives it the arguments and the result of the tool call.
"""

from functools import cache
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from tools.catalog.entries import Tool

EXTENSION = "io.modelcontextprotocol/ui"
MEDIA_TYPE = "text/html;profile=mcp-app"
URI = "ui://mailhub/proposal"
# Hosts with a handshake declare the extension only there, and this server keeps no session. They
# name this toolset in the address instead.
TOOLSET = "apps"
TOOLSET_OF_PROPOSALS = "send"
# No source: the card needs no network.
META = {"ui": {"csp": {"connectDomains": [], "resourceDomains": []}, "prefersBorder": False}}


def shows_cards(context: ServerRequestContext[Any, Any], toolsets: frozenset[str]) -> bool:
    """Return True if the client shows cards, by its capabilities or by the address it uses."""
    declared = context.session.client_capabilities
    settings = (declared.extensions or {}).get(EXTENSION) if declared else None
    types_shown = settings.get("mimeTypes") if settings else None
    return TOOLSET in toolsets or (isinstance(types_shown, list) and MEDIA_TYPE in types_shown)


def with_card(described: types.Tool, tool: Tool) -> types.Tool:
    """Return the description of a tool, with the card if the tool proposes."""
    if tool.toolset != TOOLSET_OF_PROPOSALS:
        return described
    return described.model_copy(update={"meta": {"ui": {"resourceUri": URI}}})


async def list_resources(context: Any, params: Any) -> types.ListResourcesResult:
    """Return the one resource of this server."""
    card = types.Resource(uri=URI, name="proposal", mime_type=MEDIA_TYPE, meta=META)
    return types.ListResourcesResult(resources=[card])


async def read_resource(
    context: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """Return the card; raise MCPError for any other resource."""
    if str(params.uri) != URI:
        raise MCPError(
            code=types.INVALID_PARAMS, message="Resource not found", data={"uri": str(params.uri)}
        )
    card = types.TextResourceContents(uri=URI, mime_type=MEDIA_TYPE, text=_html(), meta=META)
    return types.ReadResourceResult(contents=[card])


@cache
def _html() -> str:
    return (Path(__file__).parent / "proposal_card.html").read_text()
