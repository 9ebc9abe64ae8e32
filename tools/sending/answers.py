"""The answer to a proposal, as the program gets it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from accounts.access.caller import Caller
from accounts.infra.problems import not_found
from approvals.core.answers import Action
from approvals.core.states import Status
from approvals.gate import find
from approvals.gate.find import warnings_of
from approvals.reports.report import READ, report
from tools.answers import ProposalResult

if TYPE_CHECKING:
    from approvals.models import PendingAction


# The message for a repeated request with the same key if the action has ended.
REPEATED: dict[str, str] = {
    Status.SUCCEEDED: "Already executed",
    Status.FAILED: "Already refused by the mail server",
    Status.REJECTED: "Already rejected by a person",
    Status.CANCELLED: "Already withdrawn",
    Status.EXPIRED: "Already expired",
    Status.SUPERSEDED: "Already replaced by another proposal",
}


# The mail of these tools has text and addresses from a mail or a draft of the mailbox.
FROM_MAILBOX = frozenset(
    {"reply_email", "forward_email", "send_draft", "update_draft", "delete_draft"}
)
A = TypeVar("A", bound=Action)


def shows_mail(caller: Caller, tool: str) -> bool:
    """Return True if the answer of a tool may show the content of its mail to this caller."""
    return tool not in FROM_MAILBOX or caller.may(READ)


def without_mail(caller: Caller, action: A) -> A:
    """Return the action without addresses of a mail or draft, if the caller may not see them: a mail
    server names the recipients that it refused. The answer to a command, or of a tool of another
    server, needs the right that it was called with.
    """
    named = "error" in action and "@" in action["error"]["detail"]
    if named and not shows_mail(caller, action["tool"]):
        action["error"]["detail"] = ""
    needed = "m365:run" if action["tool"] == "m365_run_command" else "agent:chat"
    if "result" in action and not caller.may(needed):
        del action["result"]
    return action


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """The answer to a proposal. `result` is the contract's `proposal`.

    `final`: no decision of a person is open. `replayed`: the key had led to the action before.
    """

    result: ProposalResult
    action_id: str
    final: bool
    replayed: bool


def find_proposed(caller: Caller, action_id: str, *, replayed: bool) -> Proposed:
    """Return the answer about an action of this caller; raise `not_found` if it is gone."""
    action = find.find(find.of_caller(caller), action_id)
    if action is None:
        raise not_found("The action does not exist, or you may not see it.")
    return build_proposed(action, caller, replayed=replayed)


def build_proposed(
    action: "PendingAction", caller: Caller, *, replayed: bool, notes: tuple[str, ...] = ()
) -> Proposed:
    """Return the answer. It is the same for the first request and every repetition, except for the
    state, and for the notes about the request.
    """
    shown = without_mail(caller, report(action, caller))
    if replayed and action.is_final:
        shown["message"] = REPEATED.get(
            action.status, f"Already ended: {Status(action.status).label}"
        )
    result: ProposalResult = {
        "status": shown["state"],
        "action": shown,
        "warnings": warnings_of(action, titles_only=not shows_mail(caller, action.tool)),
    }
    if notes and shows_mail(caller, action.tool):  # they may name a recipient of the original
        result["notes"] = list(notes)
    return Proposed(
        result=result,
        action_id=str(action.pk),
        final=action.is_final,
        replayed=replayed,
    )
