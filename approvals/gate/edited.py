"""The content of revisions field by field, and what reviewers changed, with old and new values."""

from approvals.core.answers import Change
from approvals.core.kinds import get_kind
from approvals.core.types import EditField
from approvals.gate.differences import FieldChange, compare_fields
from approvals.models import PendingAction

MOST_CHARACTERS = 2_000  # of one value in an answer to a program


def fields_of(action: PendingAction, number: int) -> tuple[EditField, ...]:
    """Return the editable fields of a revision.

    It is empty if the kind cannot be edited or the content has been purged.
    """
    kind = get_kind(action.kind)
    revision = action.revisions.filter(number=number).first()
    return kind.fields(revision.payload) if revision and revision.payload else ()


def find_changes(action: PendingAction, before: int, after: int) -> tuple[FieldChange, ...]:
    """Return how one revision differs from another; 1 is the proposal."""
    return compare_fields(fields_of(action, before), fields_of(action, after))


def describe_changes(action: PendingAction, revision: int) -> list[Change]:
    """Return what reviewers changed up to a revision: field, value before, value after."""
    if revision == 1:
        return []
    return [_describe(change) for change in find_changes(action, 1, revision)]


def _describe(change: FieldChange) -> Change:
    before = "".join(piece.text for piece in change.pieces if piece.sort != "added")
    after = "".join(piece.text for piece in change.pieces if piece.sort != "removed")
    members: Change = {
        "field": change.name,
        "before": before[:MOST_CHARACTERS],
        "after": after[:MOST_CHARACTERS],
    }
    if max(len(before), len(after)) > MOST_CHARACTERS:
        members["truncated"] = True
    return members
