"""The kind m365.command: runs the approved command, once."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.infra.texts import translatable
from approvals.core.types import BEFORE_WIRE, ActionKind, ApprovedAction, Outcome, Rendered
from tools.m365 import runs
from tools.m365.reduce import reduce_output
from tools.sending.purpose import fill


class RunCommand(ActionKind):
    """The kind m365.command.

    There is no evidence of the effect of a lost command, so it stays unknown until a person
    decides.
    """

    words: Mapping[str, Any] = {
        "sort": _("command"),
        "question": _("Run this command in Microsoft 365?"),
        "approve": _("Approve and run"),
        "approve_anyway": _("Approve and run anyway"),
        "sealed": _(
            "This digest covers the command and every option. mailhub checks it again just before "
            "the command runs. If anything differs, nothing runs."
        ),
        "returned": _("The command did not run. A new decision is needed."),
        # States
        "approved": _("approved, will run"),
        "executing": _("running now"),
        "succeeded": _("command ran"),
        "failed": _("command did not run"),
        "unknown": _("not known whether the command ran"),
        # Attempts
        "accepted": _("ran"),
        "refused": _("refused, did not run"),
        "not_sent": _("did not run, will be retried"),
        # The page of a decided action
        "about_to": _("Approved, about to run"),
        "not_yet": _("Approved, did not run yet"),
        "attempt_did_nothing": _("The last attempt ran nothing, that is certain."),
        "done": _("Microsoft 365 accepted the command."),
        "refused_by": _("The CLI for Microsoft 365 refused the command."),
        "refused_for_good": _(
            "Nothing was changed, and mailhub will not retry. Fix the problem above, then ask for "
            "a new proposal."
        ),
        "nothing": _("The command did not run."),
        "look": _(
            "The command may have changed something, or a part of it. Check in Microsoft 365. "
            "mailhub never runs it again by itself."
        ),
        "it_happened": _("It ran"),
        "it_happened_means": _(
            "You see in Microsoft 365 what the command changed. mailhub closes it as run, in your "
            "name."
        ),
        "not_again": _("You cannot run it again."),
        "again": _("It did not run: run it again"),
        "again_means": _(
            "You are sure that the command changed nothing. If you are wrong, it happens twice. "
            "It runs after the undo window."
        ),
        # Attempts whose answer was lost
        "may_have_happened": _("May have run"),
        "did_happen": _("The command ran all the same."),
        "did_happen_twice": _("The command ran twice."),
        "twice": translatable(
            "The answer to an earlier attempt was lost. If that attempt ran after all, it happens "
            "twice."
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

    def execute(self, approved: ApprovedAction) -> Outcome:
        if settings.MCP_M365_STRICT_READONLY:
            return Outcome(
                verdict="refused",
                proof=BEFORE_WIRE,
                code="refused",
                detail=translatable("This server is now read-only for Microsoft 365."),
            )
        if not settings.MCP_M365_START_CMD:
            return Outcome.broken_off(
                on_wire=False,
                code="unreachable",
                detail=translatable("MCP_M365_START_CMD is not set."),
            )
        # A heavy library, which a worker without such a command never needs.
        from tools.m365.client import Lost, Unreachable, m365_client

        client = m365_client()
        approved.wire_started()
        started = time.monotonic()
        try:
            reply = client.run(approved.payload["line"])
        except Unreachable:
            return Outcome.broken_off(
                on_wire=False,
                code="unreachable",
                detail=translatable("The MCP server could not be started."),
            )
        except Lost:
            return Outcome(
                verdict="unknown",
                code="no_answer",
                detail=translatable("The MCP server gave no answer."),
            )
        runs.record_approved(
            approved.id,
            approved.payload["line"],
            output=reduce_output(approved.payload["command"], reply.text),
            outcome="error" if reply.failed else "ok",
            duration_ms=round((time.monotonic() - started) * 1000),
        )
        if not reply.failed:
            return _accepted_outcome(reply.text, approved.payload["command"])
        return Outcome(
            verdict="unknown",
            code="command_failed",
            detail=translatable("The command ended with an error."),
        )

    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        return None

    def can_look(self, approved: ApprovedAction) -> bool:
        return False

    def settle(self, approved: ApprovedAction) -> None:
        """Do nothing."""

    def result(self, action_id: UUID) -> Mapping[str, str] | None:
        return runs.result_of(action_id)


def _accepted_outcome(output: str, command: str) -> Outcome:
    """Return the outcome. Its receipt has no content of the answer, because it outlives the
    action's content.
    """
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Outcome(verdict="accepted", receipt={"at": at, "recipient_count": 0, "provider": "m365"})
