"""One sentence for a program: what it does next about its action. A table over all steps."""

import re
from collections.abc import Sequence

from approvals.core.states import Status
from approvals.core.types import get_kind
from approvals.gate.send_back import WITHDRAWN_ANSWERED
from approvals.models import PendingAction
from approvals.reports.steps import ORDERED_AGAIN, Step

NOT_AGAIN = "Do not propose it again."
WANTED = "Ask the user before you propose it again."
# "%(done)s" is "sent", or "carried out" for a kind that is not mail. "%(by)s" has answered.
SENTENCES = {
    "proposed": "A person has not decided yet. Wait for the decision, and do not propose it again.",
    "edited": f"A person edited it and still decides. {NOT_AGAIN}",
    "changes_requested": "A person asks for changes. Propose it again as the note says, with replaces"
    " set to this id.",
    "approved": f"A person approved it, and mailhub does the rest. {NOT_AGAIN}",
    "approved, edited": f"A person edited and approved it, and mailhub does the rest. {NOT_AGAIN}",
    "undone": f"A person took the approval back and decides again. {NOT_AGAIN}",
    "returned": f"The approval no longer counts, and a person decides again. {NOT_AGAIN}",
    "returned, thread_moved": "The conversation has a newer message, and a person decides again."
    " Read it. If your answer should differ, propose it with replaces set to this id.",
    f"returned, {ORDERED_AGAIN}": "A person said that it was not %(done)s, and ordered another"
    f" attempt. {NOT_AGAIN}",
    "leaving": f"It is being %(done)s now. {NOT_AGAIN}",
    "retrying": f"It was not %(done)s yet, and mailhub tries again. {NOT_AGAIN}",
    "succeeded": f"It was %(done)s. {NOT_AGAIN}",
    "succeeded, edited": f"A person edited and %(done)s it. {NOT_AGAIN}",
    "succeeded, ruled": f"A person confirmed that it was %(done)s. {NOT_AGAIN}",
    "unsettled": "It was %(done)s, but the work after it failed, such as the copy in Sent."
    f" {NOT_AGAIN}",
    "bounced": "It was %(done)s, but a server returned it: see bounced. Tell the user, and check these"
    f" addresses. {NOT_AGAIN}",
    "unanswered": "It was %(done)s, and nobody has answered. Do what follow_up_note says. A reminder"
    " is a new proposal.",
    "unanswered, incomplete": "It was %(done)s. No answer was found, but mailhub could not search the"
    " whole mailbox. Look into the conversation before you do what follow_up_note says.",
    "unanswered, bounced": "It was %(done)s, a server returned it, and nobody has answered. Tell the user,"
    " and check the addresses in bounced before you do what follow_up_note says.",
    "unanswered, answered": "It was sent, and somebody has answered after all. Read the answer before you"
    f" propose anything. {NOT_AGAIN}",
    "failed": "The provider refused it, and it was not %(done)s. Correct the cause in error, then"
    " propose a new one.",
    "failed, draft_changed": "Its draft was changed, sent or removed in the mailbox, so mailhub did not"
    " send it. Look in Sent before you propose it again.",
    "failed, draft_was_sent": "Another action may have sent the same draft, so mailhub did not send it"
    " again. Look in Sent, and ask the user before you propose it again.",
    "unknown": "Nobody knows yet whether it was %(done)s. mailhub looks for it if it can, and a"
    f" person decides. {NOT_AGAIN}",
    "rejected": "A person rejected it, and it is not %(done)s. Read the note, and do not propose the"
    " same again.",
    "cancelled": "Its proposer withdrew it, and it is not %(done)s. Propose a new one only if it is"
    " still wanted.",
    "cancelled, person": f"A person withdrew it, and it is not %(done)s. {WANTED}",
    f"cancelled, {WITHDRAWN_ANSWERED}": "%(by)s answered first, so it was withdrawn and is not"
    " %(done)s. Read the conversation before you propose another answer.",
    "expired": f"No decision came in time, and it is not %(done)s. {WANTED}",
    "expired, approved": f"It was approved, but could not be %(done)s in time. {WANTED}",
    "superseded": "Another proposal took its place. Follow the action in superseded_by.",
}
IN_DOUBT = "An earlier attempt may have done it already: ask the user to look before anything is proposed again."
# nobody knows that in doubt
NOT_DONE = re.compile(
    r"It was not %\(done\)s yet, and |,? and (it )?(is|was) not %\(done\)s|, so mailhub did not send it(?! again)"
    r"|, but could not be %\(done\)s in time"
)
FAILED_COMMAND = (
    "It was refused, or ended with an error, and may have changed something. Read error, and ask the"
    " user before you propose it again."
)
# For a state whose last step is not in the audit: a database of an older version.
FIRST_OF_STATE = {
    Status.PENDING: "proposed",
    Status.APPROVED: "approved",
    Status.EXECUTING: "leaving",
    Status.SUCCEEDED: "succeeded",
    Status.FAILED: "failed",
    Status.UNKNOWN: "unknown",
    Status.REJECTED: "rejected",
    Status.CANCELLED: "cancelled",
    Status.EXPIRED: "expired",
    Status.SUPERSEDED: "superseded",
}
CERTAIN = (Status.EXECUTING, Status.SUCCEEDED, Status.UNKNOWN)  # these say themselves what is known


def advise(
    action: PendingAction,
    state: Status,
    steps: Sequence[Step],
    *,
    in_doubt: bool,
    answered: bool = False,
    by: str = "",
) -> str:
    """Return the sentence for an action that is in this state after these steps.

    `in_doubt`: an attempt may have happened although the state does not show it. `answered`: somebody
    has answered, which is no step. `by` is the address that has, if the reader may see it.
    """
    situation = situation_of(state, steps, answered=answered)
    is_mail = not get_kind(action.kind).words
    done = "sent" if is_mail else "carried out"
    is_command = not is_mail and state is Status.FAILED
    told = FAILED_COMMAND if is_command else SENTENCES[situation]
    if in_doubt and state not in CERTAIN:
        told = f"{NOT_DONE.sub('', told)} {IN_DOUBT}"
    return told % {"done": done, "by": by or "Somebody"}


def situation_of(state: Status, steps: Sequence[Step], *, answered: bool = False) -> str:
    """Return the row of SENTENCES for this state after these steps."""
    last = steps[-1] if steps and steps[-1].state == state else None
    row = last.name.removeprefix("action.") if last else FIRST_OF_STATE[state]
    variant = _variant(row, steps)
    if row == "unanswered" and answered:  # an answer does not take a bounce back
        row, variant = ("bounced", "") if variant == "bounced" else (row, "answered")
    found = f"{row}, {variant}"
    return found if found in SENTENCES else row


def _variant(row: str, steps: Sequence[Step]) -> str:
    last = steps[-1] if steps else None
    if row == "succeeded" and last is not None and last.link.data.get("evidence") == "person":
        return "ruled"
    if row == "cancelled" and last is not None:
        return "person" if last.link.actor.startswith("user:") else last.withdrawn_code
    if row == "expired" and len(steps) > 1 and steps[-2].state == Status.APPROVED:
        return "approved"
    if row == "unanswered" and any(step.name == "action.bounced" for step in steps):
        return "bounced"
    if row in ("unanswered", "failed") and last is not None:
        return str(last.link.data.get("code", ""))
    if row == "returned" and last is not None:
        return last.code
    return "edited" if any(step.name == "action.edited" for step in steps) else ""
