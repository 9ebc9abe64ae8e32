"""The files that people have opened: events of the audit, so each later decision is chained to them."""

from approvals.audit import chain
from approvals.models import AuditEvent, PendingAction
from accounts.models import User

EVENT = "file_opened"


def record_opened(action: PendingAction, person: User, *, sha256: str) -> None:
    """Record that this person has opened a file of the action, once."""
    if sha256 not in find_opened(action, person):
        chain.record(
            mailbox=action.mailbox_id,
            event=EVENT,
            actor=f"user:{person.pk}",
            action_id=action.pk,
            sha256=sha256,
        )


def find_opened(action: PendingAction, person: User) -> set[str]:
    """Return the hashes of the files of the action that this person has opened."""
    events = AuditEvent.objects.filter(
        action_id=action.pk, event=EVENT, actor=f"user:{person.pk}"
    )
    return {str(data.get("sha256", "")) for data in events.values_list("data", flat=True)}
