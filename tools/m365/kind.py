"""The kind m365.command: runs the approved command, once."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from approvals.core.types import ApprovedAction, Outcome, Rendered

# Messages of the server and the CLI before they have called Microsoft.
BEFORE_ANYTHING = (
    "Command contains disallowed",
    "Only m365 commands",
    "Log in to Microsoft 365 first",
    "m365: not found",
)


class RunCommand:
    """The kind m365.command.

    There is no evidence of the effect of a lost command, so it stays unknown until a person
    decides.
    """

    words: Mapping[str, Any] = {
        "sort": _("command"),
        "question": _("May this run in Microsoft 365?"),
        "approve": _("Approve and run"),
        "sealed": _(
            "This digest covers the command and every option. It is checked again just before it runs; if anything "
            "differs, nothing runs."
        ),
        "returned": _("It came back and did not run."),
        "approved": _("approved, will run"),
        "executing": _("running now"),
        "succeeded": _("ran"),
        "failed": _("did not run"),
        "unknown": _("not known whether it ran"),
        "accepted": _("ran"),
        "refused": _("refused, did not run"),
        "not_sent": _("did not run, to be tried again"),
        "may_have_happened": _("May have run"),
        "did_happen": _("It ran all the same."),
        "did_happen_twice": _("It ran twice."),
        "twice": _(
            "The answer to an earlier attempt was lost. If that attempt ran after all, it happens twice."
        ),
    }

    def rendered(self, payload: Mapping[str, Any], blob: Callable[[str], bytes]) -> Rendered:
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

    def execute(self, approved: ApprovedAction) -> Outcome:
        if settings.MCP_M365_STRICT_READONLY:
            return Outcome(
                verdict="refused",
                code="refused",
                detail="This server only reads Microsoft 365 now.",
            )
        if not settings.MCP_M365_START_CMD:
            return Outcome(
                verdict="not_sent", code="unreachable", detail="MCP_M365_START_CMD is not set."
            )
        # A heavy library, which a worker without such a command never needs.
        from tools.m365.client import Lost, Unreachable, m365_client

        client = m365_client()
        approved.wire_started()
        try:
            reply = client.run(approved.payload["line"])
        except Unreachable:
            return Outcome(
                verdict="not_sent",
                code="unreachable",
                detail="The MCP server could not be started.",
            )
        except Lost:
            return Outcome(
                verdict="unknown", code="no_answer", detail="The MCP server gave no answer."
            )
        if not reply.failed:
            return _accepted(reply.text, approved.payload["command"])
        if any(sign in reply.text for sign in BEFORE_ANYTHING):
            return Outcome(
                verdict="refused",
                code="refused",
                detail="The CLI for Microsoft 365 refused the command.",
            )
        return Outcome(
            verdict="unknown", code="command_failed", detail="The command ended with an error."
        )

    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        return None

    def settle(self, approved: ApprovedAction) -> None:
        """Do nothing."""


def _accepted(output: str, command: str) -> Outcome:
    """Return the outcome. Its receipt has no content of the answer, because it outlives the
    action's content.
    """
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Outcome(verdict="accepted", receipt={"at": at, "recipient_count": 0, "provider": "m365"})
