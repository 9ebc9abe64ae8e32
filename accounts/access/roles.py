"""The only ownership check: which mailboxes a caller may use, and in which role."""

from typing import Any

from django.db.models import QuerySet, Value
from django.db.models.functions import Lower

from accounts.access.caller import Caller
from accounts.infra.foreign_text import parse_uuid
from accounts.infra.nearest import find_nearest
from accounts.infra.problems import FieldError, Problem, not_found
from accounts.infra.texts import join, translatable
from accounts.models import ApiToken, Mailbox, Membership, Role, User

NAMED = 5  # addresses in a refusal
MANY = 200  # comparing more addresses takes too long for an error


def mailboxes(caller: Caller, *, need: Role = Role.VIEWER) -> QuerySet[Mailbox]:
    """Return the connected mailboxes on which the caller has at least this role; a token sees only
    those it is bound to.
    """
    visible = _visible(caller.user, caller.token, need=need)
    return Mailbox.objects.filter(pk__in=visible.values("mailbox"))


def connected_of(person: User) -> QuerySet[Mailbox]:
    return Mailbox.objects.filter(pk__in=_visible(person).values("mailbox"))


def held_mailboxes(person: User, *, need: Role = Role.VIEWER) -> QuerySet[Mailbox]:
    """Return the mailboxes, connected or not, on which this person has at least this role now."""
    return Mailbox.objects.filter(pk__in=held_ids(person, need=need))


def held_ids(person: User, *, need: Role = Role.VIEWER) -> QuerySet[Membership, Any]:
    """Return the ids of these mailboxes, for a condition `IN`."""
    return _held(person, need).values("mailbox")


def _visible(
    person: User, token: ApiToken | None = None, *, need: Role = Role.VIEWER
) -> QuerySet[Membership]:
    found = _held(person, need).exclude(mailbox__status=Mailbox.Status.DISCONNECTED)
    return found if token is None else found.filter(mailbox__tokens=token)


def _held(person: User, need: Role) -> QuerySet[Membership]:
    return Membership.objects.filter(user=person, role__in=Role.at_least(need))


def connected_as(address: str) -> QuerySet[Mailbox]:
    """Return the connected mailbox with this address in lower case, by the index over addresses."""
    connected = Mailbox.objects.exclude(status=Mailbox.Status.DISCONNECTED)
    return connected.annotate(folded=Lower("address")).filter(folded=address)


def get_mailbox(caller: Caller, ref: str | None, *, need: Role) -> Mailbox:
    """Return the mailbox with this id or address; without `ref`, the only one there is.

    Raises Problem `not_found`, with the same text for a mailbox of somebody else, and `forbidden`
    if the role does not cover `need`.
    """
    found = list(_find_visible(caller, ref)[: NAMED + 1])
    if ref is None and len(found) != 1:
        raise _unnamed_mailbox([each.mailbox.address for each in found])
    if not found:
        raise _unknown_mailbox(caller, ref or "")
    if not Role(found[0].role).covers(need):
        raise Problem(
            "forbidden",
            translatable(
                "Your role on this mailbox does not allow this: it needs '%(role)s'.",
                role=need.value,
            ),
        )
    return found[0].mailbox


def _unnamed_mailbox(addresses: list[str]) -> Problem:
    """Return the refusal of a call without a mailbox; not every caller may use list_mailboxes."""
    if not addresses:
        return Problem("invalid_input", "There is no connected mailbox that you may see.")
    message = translatable("is required unless there is exactly one mailbox")
    if len(addresses) <= NAMED:
        message = translatable(
            "must be one of %(mailboxes)s", mailboxes=", ".join(sorted(addresses))
        )
    return Problem(
        "invalid_input",
        "Say which mailbox: list_mailboxes names them.",
        errors=(FieldError(field="mailbox", message=message),),
    )


def _unknown_mailbox(caller: Caller, ref: str) -> Problem:
    """Return the refusal, with the nearest address among those that the caller may see."""
    mine = mailboxes(caller).values_list("address", flat=True)[:MANY]
    near = find_nearest(ref.lower(), mine, cutoff=0.8)
    return not_found(
        join(
            translatable("The mailbox does not exist, or you may not see it."),
            translatable("Did you mean %(near)s?", near=near) if near else "",
            translatable("list_mailboxes names yours."),
        )
    )


def _find_visible(caller: Caller, ref: str | None) -> QuerySet[Membership]:
    """Return the memberships of the mailboxes that a caller sees and may mean."""
    found = _visible(caller.user, caller.token).select_related("mailbox")
    if ref is None:
        return found
    if mailbox_id := parse_uuid(ref):
        return found.filter(mailbox=mailbox_id)
    folded = found.annotate(folded=Lower("mailbox__address"))
    return folded.filter(folded=Lower(Value(ref)))


def has_role(person: User, mailbox: Mailbox, role: Role) -> bool:
    """Return True if this person has this role on the mailbox, or one that covers it."""
    held = role_of(person, mailbox)
    return held is not None and held.covers(role)


def role_of(person: User, mailbox: Mailbox) -> Role | None:
    """Return the role that this person has on the mailbox now, if any."""
    held = Membership.objects.filter(mailbox=mailbox, user=person)
    role = held.values_list("role", flat=True).first()
    return Role(role) if role else None
