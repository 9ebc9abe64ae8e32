"""The tools of further MCP servers, as entries beside the catalogue that only the chat has."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings

from accounts.access.caller import Caller
from accounts.models import Mailbox
from tools.catalog.entries import TOOLS, AnyTool, MailboxTool, Result
from tools.schemas import CallServerTool
from tools.servers.calling import find_listed, propose_on_server, read_on_server
from tools.servers.config import McpServer

# Beside the arguments of the other server, which may have a `mailbox` of its own.
MAILBOX = "mailhub_mailbox"
MAILBOX_SCHEMA = {
    "type": "string",
    "description": "not for the server: whose people see or decide this call; needed if list_mailboxes gives several",
}


@dataclass(frozen=True, kw_only=True)
class ServerTool(MailboxTool[CallServerTool]):
    """A tool of another server. `remote` is its name there, `published` its schema for a model."""

    server: McpServer
    remote: str
    published: Mapping[str, Any] = field(default_factory=dict)

    def wrap(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a call with these arguments, which stay as they are."""
        inside = {name: value for name, value in arguments.items() if name != MAILBOX}
        beside = {"mailbox": arguments[MAILBOX]} if arguments.get(MAILBOX) is not None else {}
        return {"arguments": inside, "confirm": not self.read_only, **beside}


def server_tools() -> dict[str, ServerTool]:
    """Return the tools that the operator lists, by the names under which the chat calls them."""
    tools = [
        _make_tool(server, name, reads=name in server.read)
        for server in settings.AGENT_MCP_SERVERS
        for name in (*server.read, *server.write)
    ]
    return {tool.name: tool for tool in tools}


def find_tool(caller: Caller, name: str) -> AnyTool | None:
    """Return the tool of this name: of the catalogue, or for the chat of a further server."""
    found: AnyTool | None = TOOLS.get(name)
    return found or (server_tools().get(name) if caller.surface == "agent" else None)


def describe_server_tool(tool: ServerTool) -> ServerTool | None:
    """Return the tool with the server's own description; None if the server does not offer it."""
    listed = find_listed(tool.server).get(tool.remote)
    if listed is None:
        return None
    members = {**listed.schema.get("properties", {}), MAILBOX: MAILBOX_SCHEMA}
    about = listed.description if tool.read_only else f"{listed.description} A person decides."
    return replace(
        tool, description=about.strip(), published={**listed.schema, "properties": members}
    )


def _make_tool(server: McpServer, remote: str, *, reads: bool) -> ServerTool:
    def run(caller: Caller, mailbox: Mailbox, parameters: CallServerTool) -> Result:
        if reads:
            return read_on_server(server, remote, parameters)
        return propose_on_server(server, remote, caller, mailbox, parameters)

    return ServerTool(
        name=server.call_name(remote),
        description="",
        read_only=reads,
        toolset="mail" if reads else "send",
        scope="agent:chat" if reads else "mail:propose",
        parameters=CallServerTool,
        run=run,
        server=server,
        remote=remote,
    )
