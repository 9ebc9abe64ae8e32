"""The kind m365.command: runs the approved command, once."""

from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.infra.texts import translatable
from approvals.core.types import ApprovedAction, Outcome, Rendered
from tools.m365.classify import NAME
from tools.m365.reduce import reduce_output
from tools.sending.held_commands import HeldCommand, Reply, refuse
from tools.sending.purpose import fill


class RunCommand(HeldCommand):
    """The kind m365.command."""

    template = "approvals/previews/m365.command.html"
    provider = "m365"
    unreachable = translatable("The MCP server could not be started.")
    words: Mapping[str, Any] = {
        **HeldCommand.words,
        "question": _("Run this command in Microsoft 365?"),
        "done": _("Microsoft 365 accepted the command."),
        "refused_by": _("The CLI for Microsoft 365 refused the command."),
        "look": _(
            "The command may have changed something, or a part of it. Check in Microsoft 365. "
            "mailhub never runs it again by itself."
        ),
        "it_happened_means": _(
            "You see in Microsoft 365 what the command changed. mailhub closes it as run, in your "
            "name."
        ),
        "look_first": translatable("Check in Microsoft 365 before you approve it."),
    }

    def explain(self, tool: str, preview: Mapping[str, Any], proposer: str) -> str:
        return fill(gettext("%(proposer)s runs a command in Microsoft 365."), proposer=proposer)

    def render(self, payload: Mapping[str, Any], blob: Callable[[str], bytes]) -> Rendered:
        lines = [
            f"m365 {payload['command']}",
            *(f"  --{name} {value or ''}" for name, value in payload["options"]),
        ]
        return Rendered(
            text="\n".join(lines),
            html=None,
            source=payload["line"],
            size=len(payload["line"].encode()),
        )

    def find_obstacle(self, payload: Mapping[str, Any]) -> Outcome | None:
        if NAME not in settings.MCP_M365_TOOLS:
            return refuse(
                translatable("%(name)s is switched off on this server (MCP_M365_TOOLS).", name=NAME)
            )
        if settings.MCP_M365_STRICT_READONLY:
            return refuse(translatable("This server is now read-only for Microsoft 365."))
        if not settings.MCP_M365_START_CMD:
            return Outcome.broken_off(
                on_wire=False,
                code="unreachable",
                detail=translatable("MCP_M365_START_CMD is not set."),
            )
        return None

    def run(self, approved: ApprovedAction) -> Reply:
        # A heavy library, which a worker without such a command never needs.
        from tools.m365.client import m365_client

        client = m365_client()
        approved.wire_started()
        return client.run(approved.payload["line"])

    def describe(self, payload: Mapping[str, Any]) -> str:
        return str(payload["line"])

    def shorten(self, payload: Mapping[str, Any], output: str) -> str:
        return reduce_output(payload["command"], output)

    def judge_error(self, short: str) -> Outcome:
        return Outcome(
            verdict="unknown",
            code="command_failed",
            detail=translatable("The command ended with an error."),
        )
