"""The rows that the review page needs about an action.

Each part is read and understood by the module of its subject.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from django.db.models import F

from accounts.access.roles import role_rows
from accounts.infra.compiled_sql import Asked, Rows, read_all, slot
from accounts.models import Membership, Role, User
from approvals.core.states import Status
from approvals.core.types import Remarks
from approvals.gate import notes, revise, seen
from approvals.gate.find import visible_to
from approvals.gate.rules.policy import policy_from, policy_rows
from approvals.live import events
from approvals.models import (
    ApprovalPolicy,
    Attempt,
    Comment,
    Decision,
    PendingAction,
    ReviewText,
    Revision,
)
from approvals.pages.discussion import assignments, comments, review_texts
from approvals.pages.frame import Frame, load_frame, reads_of_frame
from approvals.pages.track_record import TrackRecord, record_from, record_rows, values_of_record

_visible = Rows(
    PendingAction,
    lambda: visible_to(slot(Membership, "user", "person")).filter(
        pk=slot(PendingAction, "id", "action")
    ),
    "mailbox",
    "proposer",
)
_present = Rows(
    Revision,
    lambda: Revision.objects.filter(action=slot(Revision, "action"), number=F("action__revision")),
)
_decisions = Rows(
    Decision,
    lambda: Decision.objects.filter(action=slot(Decision, "action")),
    "person",
)
_attempts = Rows(Attempt, lambda: Attempt.objects.filter(action=slot(Attempt, "action")))


@dataclass(frozen=True, kw_only=True)
class ReviewReads:
    """The rows around an action, for one person.

    `seen` is the revision that the person saw last, `editable` the rows of `revise.editable_rows`.
    `frame` is empty for a part of a page.
    """

    frame: Frame | None
    seen: int | None
    policy: ApprovalPolicy
    role: Role | None
    editable: Sequence[tuple[Any, ...]]
    remarks: Remarks
    track_record: TrackRecord | None
    comments: list[Comment]
    assigned: User | None
    assignable: list[User]
    texts: dict[str, list[ReviewText]]
    decisions: list[Decision]
    attempts: list[Attempt]
    others: list[str]

    def has_role(self, needed: Role) -> bool:
        return self.role is not None and self.role.covers(needed)


def read_visible(person: User, action_id: UUID) -> PendingAction | None:
    """Read an action of this person's mailboxes with its present revision; None for any other."""
    found, present = read_all(
        (_visible, {"person": person.pk, "action": action_id}), (_present, {"action": action_id})
    )
    for action in _visible.load(found):
        (action.current,) = _present.load(present)
        return cast("PendingAction", action)
    return None


def read_review(person: User, action: PendingAction, *, framed: bool) -> ReviewReads:
    """Read all of it."""
    frame = reads_of_frame(person) if framed else ()
    asked = _reads_about(person, action)
    rows = read_all(*frame, *asked.values())
    found = dict(zip(asked, rows[len(frame) :], strict=True))
    return ReviewReads(
        frame=load_frame(person, rows[: len(frame)]) if frame else None,
        seen=seen.seen_from(found["seen"]),
        policy=policy_from(found["policy"], action.mailbox),
        role=Role(found["role"][0][0]) if found["role"] else None,
        editable=found["editable"],
        remarks=notes.remarks_from(found["note"], found["metadata"]),
        track_record=record_from(found["record"]) if "record" in found else None,
        comments=comments.comment_rows.load(found["comments"]),
        assigned=assignments.assigned_from(found["assigned"]),
        assignable=assignments.assignable_rows.load(found["assignable"]),
        texts=review_texts.group_by_purpose(found["texts"]),
        decisions=_decisions.load(found["decisions"]),
        attempts=_attempts.load(found["attempts"]),
        others=events.present_from(found["present"]),
    )


def _reads_about(person: User, action: PendingAction) -> dict[str, Asked]:
    of_action = {"action": action.pk}
    of_mailbox = {"mailbox": action.mailbox_id}
    asked: dict[str, Asked] = {
        "seen": (seen.seen_rows, of_action | {"person": person.pk}),
        "policy": (policy_rows, of_mailbox),
        "role": (role_rows, of_mailbox | {"user": person.pk}),
        "editable": (revise.editable_rows, of_action),
        "note": (notes.note_rows, of_action),
        "metadata": (notes.metadata_rows, of_action),
        "comments": (comments.comment_rows, of_action),
        "assigned": (assignments.assigned_rows, of_action),
        "assignable": (assignments.assignable_rows, of_mailbox),
        "texts": (review_texts.text_rows, of_mailbox),
        "decisions": (_decisions, of_action),
        "attempts": (_attempts, of_action),
        "present": events.reads_of_present(action.pk, but=person),
    }
    if action.status == Status.PENDING and action.proposer_name:
        asked["record"] = (record_rows, values_of_record(action))
    return asked
