"""New revisions of a pending action: the row and its blobs; earlier decisions become void."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

from accounts.infra.database import database_now
from accounts.models import User
from approvals.core.risk import rank_risk
from approvals.core.signatures import digest_of
from approvals.core.types import PreviewWarning
from approvals.models import Author, Blob, Decision, PendingAction, Revision


@dataclass(frozen=True, kw_only=True)
class PreparedBlobs:
    """The rows of an action's bytes, not saved yet."""

    action_id: UUID
    rows: tuple[Blob, ...]

    def save(self) -> None:
        """Add the rows in the caller's transaction; rows that are there already are kept."""
        Blob.objects.bulk_create(self.rows, ignore_conflicts=True)


def prepare_blobs(contents: Iterable[bytes], *, action_id: UUID | None = None) -> PreparedBlobs:
    """Return the rows of these bytes, for a new action or the given one."""
    action_id = action_id or uuid4()
    by_hash = {hashlib.sha256(content).hexdigest(): content for content in contents}
    rows = [Blob(action_id=action_id, sha256=each, content=by_hash[each]) for each in by_hash]
    return PreparedBlobs(action_id=action_id, rows=tuple(rows))


def insert_authors(
    action: PendingAction, replaced: PendingAction | None, others: Iterable[int]
) -> None:
    """Store the authors of a new action; the row that it replaces is locked."""
    people = {action.proposer_id, *others}
    if replaced is not None:
        asked = replaced.decisions.filter(verdict=Decision.Verdict.CHANGES_REQUESTED)
        people.update(replaced.authors.values_list("person", flat=True))
        people.update(asked.values_list("person", flat=True))
    Author.objects.bulk_create(Author(action=action, person_id=each) for each in sorted(people))


def find_authors(action_id: UUID) -> set[int]:
    """Return the ids of the people who wrote an action."""
    return set(Author.objects.filter(action=action_id).values_list("person", flat=True))


def add_revision(
    action: PendingAction,
    *,
    author: User,
    payload: Mapping[str, Any],
    preview: Mapping[str, Any],
    changed: Sequence[str],
    blobs: PreparedBlobs | None = None,
    **more: Any,
) -> None:
    """Replace the present content by new content, or add findings to the same content.

    The row is locked. Decisions count for the revision they name, so earlier ones are void. `more`
    goes with the update. New content keeps the findings that earlier revisions have told.
    """
    number, digest = action.revision + 1, digest_of(payload)
    if digest != action.digest:
        warnings = preview.get("warnings") or []
        known = {warning["code"] for warning in warnings}
        told = [w for code, w in _find_notices(action).items() if code not in known]
        preview = {**preview, "warnings": [*warnings, *told]}
    Author.objects.get_or_create(action=action, person=author)
    Revision.objects.create(
        action=action,
        number=number,
        author=author,
        payload=payload,
        preview=preview,
        changed=list(changed),
        digest=digest,
        created_at=database_now(),
    )
    if blobs is not None:
        blobs.save()
    PendingAction.objects.filter(pk=action.pk).update(
        revision=number,
        digest=digest,
        risk=rank_risk(preview.get("warnings") or ()),
        approvals_given=0,
        **more,
    )
    action.refresh_from_db()


def _find_notices(action: PendingAction) -> dict[str, Any]:
    """Return the newest warning of each code that a revision with the same content has added."""
    notices = {}
    for before, after in pairwise(action.revisions.order_by("number")):
        if before.digest == after.digest:
            known = before.preview.get("warnings") or []
            added = (w for w in after.preview.get("warnings") or [] if w not in known)
            notices.update({warning["code"]: warning for warning in added})
    return notices


def add_notice(action: PendingAction, warnings: Sequence[PreviewWarning], **more: Any) -> None:
    """Add a revision with the same content and new findings about it.

    The row is locked and pending. The author is the proposer, because nobody has edited the
    content.
    """
    current = action.current
    told = {warning.code for warning in warnings}
    kept = [
        warning for warning in current.preview.get("warnings", []) if warning["code"] not in told
    ]
    preview = {**current.preview, "warnings": [*kept, *(warning.as_json() for warning in warnings)]}
    add_revision(
        action,
        author=action.proposer,
        payload=current.payload,
        preview=preview,
        changed=current.changed,
        **more,
    )


def find_told_codes(action_id: UUID) -> set[str]:
    """Return the codes of the warnings that the present revision shows."""
    current = PendingAction.objects.get(pk=action_id).current
    return {warning["code"] for warning in current.preview.get("warnings", [])}


def filter_new_warnings(
    action: PendingAction, warnings: Iterable[PreviewWarning]
) -> tuple[PreviewWarning, ...]:
    """Return the warnings that the present revision does not show yet: a new code, or a new word of
    a mark.
    """
    told: dict[str, set[str]] = {}
    for each in action.current.preview.get("warnings", []):
        told.setdefault(each["code"], set()).update(each.get("mark", "").split())
    return tuple(
        each
        for each in warnings
        if each.code not in told or not told[each.code].issuperset(each.mark.split())
    )
