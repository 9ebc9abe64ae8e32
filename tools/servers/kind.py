"""The kind mcp.call: calls an approved tool of another MCP server, once."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.infra.texts import translatable
from approvals.core.types import ApprovedAction, Outcome, Proof, Rendered
from tools.mail.text.characters import INVISIBLE
from tools.mail.text.redaction import shorten
from tools.sending.held_commands import HeldCommand, Reply, refuse
from tools.sending.purpose import fill
from tools.servers.config import McpServer

ANSWER_CHARACTERS = 4000
ERROR_CHARACTERS = 500


class CallTool(HeldCommand):
    """The kind mcp.call."""

    template = "approvals/previews/mcp.call.html"
    provider = "mcp"
    unreachable = translatable("The server cannot be reached, or it no longer has this tool.")
    words: Mapping[str, Any] = {
        **HeldCommand.words,
        "sort": _("call of a tool"),
        "question": _("Run this tool on the other server?"),
        "sealed": _(
            "This digest covers the server, the tool and every argument. mailhub checks it again "
            "just before the tool runs. If anything differs, nothing runs."
        ),
        "done": _("The other server answered without an error."),
        "failed": _("ended with an error"),
        "refused": _("ended with an error"),
        "refused_by": _("The other server answered with an error."),
        "refused_for_good": _(
            "mailhub will not retry. Fix the problem above, then ask for a new proposal."
        ),
        "look": _(
            "The tool may have changed something, or a part of it. Check in the other system. "
            "mailhub never runs it again by itself."
        ),
        "it_happened_means": _(
            "You see in the other system what the tool changed. mailhub closes it as run, in your "
            "name."
        ),
        "look_first": translatable("Check in the other system before you approve it."),
    }

    def explain(self, tool: str, preview: Mapping[str, Any], proposer: str) -> str:
        return fill(gettext("%(proposer)s runs a tool of another server."), proposer=proposer)

    def render(self, payload: Mapping[str, Any], blob: Callable[[str], bytes]) -> Rendered:
        source = write_arguments(payload["arguments"])
        return Rendered(text=source, html=None, source=source, size=len(source.encode()))

    def find_obstacle(self, payload: Mapping[str, Any]) -> Outcome | None:
        if _server_of(payload) is None:
            return refuse(
                translatable("The settings of this server no longer allow this tool there.")
            )
        return None

    def run(self, approved: ApprovedAction) -> Reply:
        # A heavy library, which a worker without such a call never needs.
        from tools.servers.client import connect

        payload = approved.payload
        server = _server_of(payload)
        assert server is not None  # `find_obstacle` has looked
        with connect(server, payload["tool"]) as connection:
            approved.wire_started()
            return connection.call(payload["tool"], payload["arguments"])

    def describe(self, payload: Mapping[str, Any]) -> str:
        return describe_call(payload["server"], payload["tool"], payload["arguments"])

    def shorten(self, payload: Mapping[str, Any], output: str) -> str:
        return shorten(output, ANSWER_CHARACTERS)

    def judge_error(self, short: str) -> Outcome:
        """Return "refused": the protocol's `isError` is the server's word that the tool failed."""
        return Outcome(
            verdict="refused",
            proof=Proof(kind="answer"),
            code="tool_failed",
            detail=translatable(
                "The other server answered with an error: %(said)s",
                said=escape_invisible(short[:ERROR_CHARACTERS]),
            ),
        )


def write_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the arguments as JSON to read. Its escapes are JSON too, so this is what leaves.

    Raises ValueError or RecursionError if they are no JSON.
    """
    return escape_invisible(json.dumps(arguments, ensure_ascii=False, indent=2, allow_nan=False))


def describe_call(server: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as one line."""
    return escape_invisible(f"{server} {tool} {json.dumps(arguments, ensure_ascii=False)}")


def escape_invisible(text: str) -> str:
    """Return the text with the escape of JSON for each control character and each invisible one."""
    return "".join(json.dumps(letter)[1:-1] if _is_invisible(letter) else letter for letter in text)


def _is_invisible(letter: str) -> bool:
    return bool(INVISIBLE.match(letter)) or not (letter.isprintable() or letter == "\n")


def _server_of(payload: Mapping[str, Any]) -> McpServer | None:
    """Return the server that a person approved, if the settings still allow the call there."""
    return next(
        (
            each
            for each in settings.AGENT_MCP_SERVERS
            if (each.name, each.url) == (payload["server"], payload["url"])
            and payload["tool"] in each.write
        ),
        None,
    )
