"""The facts that a program learns about its action: now, and about each step in a push."""

from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from accounts.access.caller import Caller
from accounts.infra.database import database_now
from accounts.models import User
from approvals.core.answers import Action, Change, StepReview, Verdict, Warned, Watched
from approvals.core.states import Status
from approvals.gate import differences, find, notes, reconcile
from approvals.gate.rules.conditions import VOID
from approvals.gate.rules.policy import find_hold, policy_of
from approvals.models import AuditEvent, PendingAction
from approvals.reports import guidance
from approvals.reports.steps import ORDERED_AGAIN, Step, as_steps, steps_of

READ = "mail:read"  # a caller without it sees no text of the mail and no values of an edit
# The reasons that have no entry in VOID, and no warning of a kind.
DETAILS = {
    ORDERED_AGAIN: "A person said that it did not happen, and ordered another attempt.",
    "approval_unproven": "The approval has no valid signature.",
    "thread_moved": "The thread has a newer message than the one that is answered.",
    "thread_unread": "mailhub could not search the whole thread for a newer message.",
    "draft_changed": "The draft was changed after the approval.",
}
OTHER = "Something changed after the approval."
VERDICTS: dict[str, Verdict] = {
    "action.approved": "approved",
    "action.rejected": "rejected",
    "action.changes_requested": "changes_requested",
    "action.edited": "edited",
}


class Returned(TypedDict):
    """Why an approved action waits for a person again."""

    code: str
    detail: str
    warnings: NotRequired[list[Warned]]


class ActionReport(Action):
    """An action, why it is in this state, and what to do next."""

    next: Annotated[str, Field(description="one sentence for the program")]
    sequence: NotRequired[Annotated[int, Field(ge=1, description="grows with each step")]]
    returned: NotRequired[Returned]
    changes: NotRequired[list[Change]]


def report(action: PendingAction, caller: Caller) -> ActionReport:
    """Return the contract's `action` object with everything that its proposer may know."""
    first = action.first_event
    steps = steps_of(action.pk) if first is None else as_steps([first])
    members = cast(ActionReport, find.describe_action(action, reads=caller.may(READ)))
    if steps:
        members["sequence"] = len(steps)
    if action.status == Status.PENDING and action.returned:
        members["returned"] = _describe_return(action.returned, reads=caller.may(READ))
    if caller.may(READ) and (changes := differences.describe_changes(action, action.revision)):
        members["changes"] = changes
    doubt = "may_have_been_sent_at" in members or "also_sent_at" in members
    members["next"] = guidance.advise(
        action,
        Status(action.status),
        steps,
        in_doubt=doubt,
        answered="answered_at" in members,
        by=members.get("answered_by", ""),
    )
    if action.status == Status.APPROVED and (held := _say_what_holds(action)):
        members["next"] += f" {held}"
    return members


def _say_what_holds(action: PendingAction) -> str:
    """Return in English what holds an approved action back; nothing if a worker may take it."""
    hold = find_hold(action, policy_of(action.mailbox))
    at = max([each for each in (action.not_before, hold and hold.until) if each], default=None)
    said = [str(each) for each in (hold.reason, hold.closed) if each] if hold else []
    if at and at > database_now():
        said.append(f"It leaves at {find.rfc3339(at.replace(microsecond=0))} at the earliest.")
    if hold and hold.ends:
        said.append("The approval ends before that, and a person then decides again.")
    return " ".join(said)


def report_step(action: PendingAction, link: AuditEvent, listener: Caller) -> dict[str, Any]:
    """Return the members of a push about one step, as it was then; the same for each attempt.

    The words of people, the metadata and the values of an edit go only to the token that proposed
    the action. Other tokens of the mailbox learn the verdict and the receipt.
    """
    steps = steps_of(action.pk, until=link.sequence)
    if not steps or steps[-1].link.pk != link.pk:
        return {}
    last, own = steps[-1], find.of_caller(listener).filter(pk=action.pk).exists()
    doubt = reconcile.may_have_left_by(action.pk, link.at) or reconcile.find_unshown_send(action)
    came: Watched = {}
    if last.withdrawn_code or last.name in ("action.bounced", "action.unanswered"):
        came = find.describe_watch(action, reads=own and listener.may(READ), own=own)
    members: dict[str, Any] = {
        "sequence": len(steps),
        "next": guidance.advise(
            action,
            last.state,
            steps,
            in_doubt=doubt is not None,
            answered="answered_at" in came,
            by=came.get("answered_by", ""),
        ),
        **came,
    }
    if review := _review_then(action, steps, words=own, reads=listener.may(READ)):
        members["review"] = review
    if last.state == Status.SUCCEEDED and action.receipt:
        members["receipt"] = dict(action.receipt)
        if not own:
            members["receipt"].pop("ruled_by", None)
    if last.code:
        members["returned"] = {"code": last.code, "detail": _detail_of(last.code)}
    if last.name == "action.superseded":
        members["superseded_by"] = str(last.link.data.get("by", ""))
    if last.name in ("action.failed", "action.retrying", "action.unknown") or last.withdrawn_code:
        members["error"] = {"code": str(last.link.data.get("code", ""))}
    if own and (pairs := notes.metadata_of(action)):
        members["metadata"] = pairs
    if own and listener.may(READ) and (changes := _changes_then(action, steps)):
        members["changes"] = changes
    return members


def _review_then(
    action: PendingAction, steps: Sequence[Step], *, words: bool, reads: bool
) -> StepReview | None:
    """Return the last decision or edit as it was after these steps; an approval ends by a return."""
    said: list[Step] = []
    for step in steps:
        if step.name in VERDICTS:
            said.append(step)
        elif step.name in ("action.undone", "action.returned"):
            said = [each for each in said if each.name != "action.approved"]
    if not said:
        return None
    review: StepReview = {"verdict": VERDICTS[said[-1].name]}
    changed = [each.link.data.get("changed") for each in said if each.name == "action.edited"]
    if words:
        _add_words(review, action, said, reads=reads)
    if changed and changed[-1]:
        review["changed"] = changed[-1]
    return review


def _add_words(
    review: StepReview, action: PendingAction, said: Sequence[Step], *, reads: bool
) -> None:
    """Add who decided or edited last, and the note."""
    name, actor = said[-1].name, said[-1].link.actor
    person = User.objects.filter(pk=actor.removeprefix("user:")).first()
    if person is None:
        return
    review["by"] = str(person)
    decisions = list(action.decisions.filter(verdict=VERDICTS[name], person=person))
    number = sum(1 for each in said if (each.name, each.link.actor) == (name, actor))
    if len(decisions) >= number:
        review |= cast(StepReview, find.note_of(decisions[number - 1], reads=reads))


def _changes_then(action: PendingAction, steps: Sequence[Step]) -> list[Change]:
    revisions = [step.link.data.get("revision") for step in steps if step.name == "action.edited"]
    return (
        differences.describe_changes(action, revisions[-1]) if revisions and revisions[-1] else []
    )


def _describe_return(returned: dict[str, Any], *, reads: bool) -> Returned:
    """Return why the action came back, with the warnings of its kind."""
    members = {name: returned[name] for name in ("code", "detail") if name in returned}
    if not reads and "detail" in members:  # its words may be of a mail
        members["detail"] = _detail_of(str(returned["code"]))
    warnings = find.describe_warnings(returned.get("warnings", ()), titles_only=not reads)
    return cast(Returned, members | ({"warnings": warnings} if warnings else {}))


def _detail_of(code: str) -> str:
    """Return the sentence of a reason; pushes are the same at each attempt, so it is a constant."""
    return str(VOID[code][1]) if code in VOID else DETAILS.get(code, OTHER)
