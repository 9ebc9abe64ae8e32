"""The only ownership check: which mailboxes a caller may use, and in which role."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.db.models.functions import Lower

from accounts.access.caller import Caller
from accounts.infra.compiled_sql import (
    Asked,
    Rows,
    Select,
    Slot,
    columns_of,
    instance,
    read_all,
    slot,
)
from accounts.infra.own_sender import own_sender
from accounts.infra.problems import FieldError, Problem, not_found
from accounts.infra.texts import join, translatable
from accounts.models import ApiToken, Mailbox, Membership, Role, User

MANY = 200  # comparing more addresses takes too long for an error


def mailboxes(caller: Caller, *, need: Role = Role.VIEWER) -> QuerySet[Mailbox]:
    """Return the connected mailboxes on which the caller has at least this role; a token sees only
    those it is bound to.
    """
    found = connected_of(caller.user, need=need)
    return found if caller.token is None else found.filter(tokens=caller.token)


def connected_as(address: str | Slot) -> QuerySet[Mailbox]:
    """Return the connected mailbox with this address in lower case, by the index over addresses."""
    connected = Mailbox.objects.exclude(status=Mailbox.Status.DISCONNECTED)
    return connected.annotate(folded=Lower("address")).filter(folded=address)


def held_mailboxes(person: User | Slot, *, need: Role = Role.VIEWER) -> QuerySet[Mailbox]:
    """Return the mailboxes, connected or not, on which this person has at least this role now."""
    held = Membership.objects.filter(user=person, role__in=Role.at_least(need))
    return Mailbox.objects.filter(pk__in=held.values("mailbox"))


def connected_of(person: User | Slot, *, need: Role = Role.VIEWER) -> QuerySet[Mailbox]:
    return held_mailboxes(person, need=need).exclude(status=Mailbox.Status.DISCONNECTED)


def get_mailbox(caller: Caller, ref: str | None, *, need: Role) -> Mailbox:
    """Return the mailbox with this id or address; without `ref`, the only one there is.

    Raises Problem `not_found`, with the same text for a mailbox of somebody else, and `forbidden`
    if the role does not cover `need`.
    """
    by = "" if ref is None else "id" if _is_uuid(ref) else "address"
    token = caller.token.pk if caller.token else None
    found = _visible[token is not None, by](
        user=caller.user.pk, token=token, ref=ref, sender=own_sender()
    )
    if ref is None and len(found) != 1:
        raise Problem(
            "invalid_input",
            "Say which mailbox: list_mailboxes names them.",
            errors=(
                FieldError(
                    field="mailbox",
                    message=translatable("is required unless there is exactly one mailbox"),
                ),
            ),
        )
    if not found:
        raise _unknown_mailbox(caller, ref or "")
    mailbox, role = instance(Mailbox, found[0]), Role(found[0][-2])
    mailbox.sender_is_mailbox = bool(found[0][-1])
    if not role.covers(need):
        raise Problem(
            "forbidden",
            translatable(
                "Your role on this mailbox does not allow this: it needs '%(role)s'.",
                role=need.value,
            ),
        )
    return mailbox


def _unknown_mailbox(caller: Caller, ref: str) -> Problem:
    """Return the refusal, with the nearest address among those that the caller may see."""
    mine = mailboxes(caller).values_list("address", flat=True)[:MANY]
    near = get_close_matches(ref.lower(), mine, n=1, cutoff=0.8)
    return not_found(
        join(
            translatable("The mailbox does not exist, or you may not see it."),
            translatable("Did you mean %(near)s?", near=near[0]) if near else "",
            translatable("list_mailboxes names yours."),
        )
    )


def load_mailboxes(caller: Caller, also: Asked) -> tuple[list[Mailbox], Sequence[tuple[Any, ...]]]:
    """Return what `mailboxes` returns, and the rows of another statement."""
    listed = _listed[caller.token is not None]
    values = {"user": caller.user.pk, "token": caller.token.pk if caller.token else None}
    rows, others = read_all((listed, values), also)
    return listed.load(rows), others


def _filter_visible(of_token: bool) -> QuerySet[Mailbox]:
    found = connected_of(slot(Membership, "user"))
    return found.filter(tokens=slot(ApiToken, "id", "token")) if of_token else found


_listed = {
    of_token: Rows(Mailbox, partial(_filter_visible, of_token)) for of_token in (True, False)
}


def _select_visible(of_token: bool, by: str) -> QuerySet[Mailbox, Any]:
    """Return the mailboxes that a caller sees, with the role on each, in one statement because
    every call needs it.
    """
    found = _filter_visible(of_token)
    match by:
        case "id":
            found = found.filter(pk=slot(Mailbox, "id", "ref"))
        case "address":
            found = found.annotate(folded=Lower("address")).filter(
                folded=Lower(slot(Mailbox, "address", "ref"))
            )
    sender = Exists(connected_as(slot(Mailbox, "address", "sender")))
    role = Membership.objects.filter(mailbox=OuterRef("pk"), user=slot(Membership, "user"))
    return found.values_list(*columns_of(Mailbox), Subquery(role.values("role")), sender)[:2]


_visible = {
    (of_token, by): Select(partial(_select_visible, of_token, by))
    for of_token in (True, False)
    for by in ("", "id", "address")
}


def has_role(person: User, mailbox: Mailbox, role: Role) -> bool:
    """Return True if this person has this role on the mailbox, or one that covers it."""
    held = role_rows.first(mailbox=mailbox.pk, user=person.pk)
    return held is not None and Role(held[0]).covers(role)


role_rows = Select(
    lambda: Membership.objects.filter(
        mailbox=slot(Membership, "mailbox"), user=slot(Membership, "user")
    ).values_list("role")
)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
