"""The one ownership check: which mailboxes a caller may touch, and how."""

from uuid import UUID

from django.db.models import F, QuerySet

from accounts.caller import Caller
from accounts.models import Mailbox, Role
from accounts.problems import FieldError, Problem, not_found


def mailboxes(caller: Caller, *, need: Role = Role.VIEWER) -> QuerySet[Mailbox]:
    """The connected mailboxes on which the caller has at least this role; a token sees only those it is bound to."""
    found = Mailbox.objects.filter(memberships__user=caller.user, memberships__role__in=Role.at_least(need)).exclude(
        status=Mailbox.Status.DISCONNECTED
    )
    return found if caller.token is None else found.filter(tokens=caller.token)


def get_mailbox(caller: Caller, ref: str | None, *, need: Role) -> Mailbox:
    """The mailbox with this id or address; without one, the only one there is.

    Raises Problem `not_found` for a stranger's mailbox exactly as for none, `forbidden` when the role is too small.
    """
    # The role is that of the membership by which it is visible: asked in one statement, since every call asks.
    visible = mailboxes(caller).annotate(role=F("memberships__role"))
    if ref is None:
        candidates = list(visible[:2])
        if len(candidates) != 1:
            raise Problem(
                "invalid_input",
                "Say which mailbox: list_mailboxes names them.",
                errors=(FieldError(field="mailbox", message="is needed when there is not exactly one mailbox"),),
            )
        mailbox = candidates[0]
    else:
        by_ref = visible.filter(id=ref) if _is_uuid(ref) else visible.filter(address__iexact=ref)
        found = by_ref.first()
        if found is None:
            raise not_found("The mailbox")
        mailbox = found
    if not Role(mailbox.role).covers(need):
        raise Problem("forbidden", f"Your role on this mailbox does not allow this: it needs '{need.value}'.")
    return mailbox


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
