"""The revisions and files of an action that each person has seen."""

from uuid import UUID

from accounts.models import User
from approvals.audit import chain
from approvals.models import AuditEvent, PendingAction, Seen


def record_seen(*, action: PendingAction, person: User, revision: int) -> None:
    """Record the revision that this person sees now.

    The open page reports it, because a fetch does not mean that somebody looks. An old window does
    not take back a newer revision.
    """
    if (last_seen(action, person) or 0) < revision <= action.revision:
        Seen.objects.update_or_create(action=action, person=person, defaults={"revision": revision})


def last_seen(action: PendingAction, person: User) -> int | None:
    """Return the revision that this person saw last; None before the first."""
    mine = Seen.objects.filter(action=action, person=person)
    return mine.values_list("revision", flat=True).first()


def was_opened(action_id: UUID | str) -> bool:
    """Return True if somebody has had the review page of an action open."""
    return Seen.objects.filter(action__pk=action_id).exists()


def record_opened(action: PendingAction, person: User, *, sha256: str) -> None:
    """Record once that this person has opened a file of the action.

    It is an event of the mailbox: later decisions follow it in the chain.
    """
    if sha256 not in find_opened(action, person):
        chain.record(
            mailbox=action.mailbox_id,
            event="file_opened",
            actor=f"user:{person.pk}",
            action_id=action.pk,
            sha256=sha256,
        )


def find_opened(action: PendingAction, person: User) -> set[str]:
    """Return the hashes of the files of the action that this person has opened."""
    events = AuditEvent.objects.filter(
        action_id=action.pk, event="file_opened", actor=f"user:{person.pk}"
    )
    return {str(data.get("sha256")) for data in events.values_list("data", flat=True)}


def find_unopened(action: PendingAction, person: User) -> set[str]:
    """Return the hashes of the files of the action that this person has not opened."""
    files = {file["sha256"] for file in (action.current.payload or {}).get("attachments", ())}
    return files - find_opened(action, person) if files else files
