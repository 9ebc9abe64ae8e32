"""Calls of tools on other MCP servers: a reading tool answers now, a writing one waits for a person."""

import hashlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from accounts.access.caller import Caller
from accounts.infra.json_bodies import check_json
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.core.types import Preview, PreviewWarning, Proposal
from tools.mail.text.redaction import shorten
from tools.schemas import CallServerTool
from tools.sending.answers import Proposed
from tools.sending.held_commands import EXCERPT, Lost, Unreachable, find_targets, propose_command
from tools.servers.config import McpServer
from tools.servers.kind import describe_call, escape_invisible, write_arguments

if TYPE_CHECKING:
    from tools.servers.client import Listed

ARGUMENT_CHARACTERS = 20_000  # less than the review page shows
NAME_CHARACTERS = 100
RETRY_SECONDS = 30
FOUND_SECONDS, MISSING_SECONDS = 300.0, 30.0  # a server that is down must not delay each question
CHANGES_ANOTHER_SYSTEM = PreviewWarning(
    code="mcp_write",
    title=translatable("Changes something in another system"),
    text=translatable(
        "The tool runs with the rights that this installation has there, not with those of the mailbox."
    ),
    severity="risk",
)

_listed: dict[McpServer, tuple[float, Mapping[str, "Listed"]]] = {}


def find_listed(server: McpServer) -> Mapping[str, "Listed"]:
    """Return the tools that a server describes now or did lately; none if it cannot be reached."""
    until, tools = _listed.get(server, (0.0, {}))
    if time.monotonic() >= until:
        # It loads the MCP library (30 MB), so only a chat with such servers pays for it.
        from tools.servers.client import connect

        try:
            with connect(server) as connection:
                tools = connection.tools
        except Unreachable:
            tools = {}
        until = time.monotonic() + (FOUND_SECONDS if tools else MISSING_SECONDS)
        _listed[server] = (until, tools)
    return tools


def read_on_server(
    server: McpServer, tool: str, parameters: CallServerTool
) -> dict[str, Any] | Proposed:
    """Call a reading tool now; raise Problem if it fails."""
    _check(parameters.arguments)
    from tools.servers.client import connect

    try:
        with connect(server, tool) as connection:
            reply = connection.call(tool, parameters.arguments)
    except Unreachable:
        raise Problem(
            "transient",
            translatable(
                "%(server)s cannot be reached, or no longer has this tool.", server=server.name
            ),
            retry_after=RETRY_SECONDS,
        ) from None
    except Lost as lost:
        if said := shorten(str(lost), EXCERPT):
            raise Problem(
                "invalid_input", translatable("The tool failed: %(output)s", output=said)
            ) from None
        raise Problem(
            "transient",
            translatable("%(server)s gave no answer.", server=server.name),
            retry_after=RETRY_SECONDS,
        ) from None
    if reply.failed:
        said = shorten(reply.text, EXCERPT)
        raise Problem("invalid_input", translatable("The tool failed: %(output)s", output=said))
    return {"output": reply.text}


def propose_on_server(
    server: McpServer, tool: str, caller: Caller, mailbox: Mailbox, parameters: CallServerTool
) -> dict[str, Any] | Proposed:
    """Propose the call of a writing tool to the people of the mailbox."""
    written = _check(parameters.arguments)
    line = describe_call(server.name, tool, parameters.arguments)
    proposal = Proposal(
        kind="mcp.call",
        payload={
            "version": 1,
            "kind": "mcp.call",
            "mailbox": str(mailbox.id),
            "server": server.name,
            "url": server.url,
            "tool": tool,
            "arguments": parameters.arguments,
        },
        preview=Preview(
            title=f"{server.name}: {tool}",
            targets=find_targets(_texts(parameters.arguments), mailbox),
            excerpt=" ".join(written.split())[:EXCERPT],
            fingerprint=hashlib.sha256(line.encode()).hexdigest(),
            warnings=(CHANGES_ANOTHER_SYSTEM,),
        ),
        message_id=f"mcp-{uuid4()}",
    )
    proposed = propose_command(
        caller, mailbox, parameters, tool=server.call_name(tool), proposal=proposal
    )
    assert proposed is not None  # the chat confirms each call: a person previews it
    return proposed


def _check(arguments: Mapping[str, Any]) -> str:
    """Return the arguments as a person reads them; raise Problem if they are no JSON or too much."""
    try:
        written = write_arguments(arguments)
    except (ValueError, RecursionError):
        raise Problem("invalid_input", "The arguments are not JSON.") from None
    if len(written) > ARGUMENT_CHARACTERS:
        raise Problem(
            "too_large",
            translatable(
                "The arguments have more than %(most)s characters.", most=f"{ARGUMENT_CHARACTERS:,}"
            ),
        )
    check_json(written.encode())
    return written


def _texts(value: Any, name: str = "arguments") -> Iterator[tuple[str, str]]:
    """Yield every text in the arguments, with the name of its member. `_check` bounds the depth."""
    if isinstance(value, str):
        yield name, escape_invisible(value)
    elif isinstance(value, Mapping):
        for each, inside in value.items():
            yield name, escape_invisible(each)
            yield from _texts(inside, each[:NAME_CHARACTERS])
    elif isinstance(value, list):
        for inside in value:
            yield from _texts(inside, name)
