"""The rights that people on leave lend to their deputies.

A deputy decides: approves, rejects, edits and comments. A deputy does not manage, propose or call
tools. Every right comes from a membership of the person on leave, so a deputy has nothing to pass
on, and loses the right with that membership.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from accounts.infra.compiled_sql import Slot
from accounts.models import Mailbox, Membership, Role, User
from approvals.models import Deputyship


@dataclass(frozen=True, kw_only=True)
class Right:
    """The right of a person to decide: their own, or the right of `deputy_of`, who is on leave."""

    person: User
    deputy_of: User | None = None

    @property
    def seat(self) -> int:
        """Return the id of the person whose right it is; approvals are counted by it."""
        return (self.deputy_of or self.person).pk

    @property
    def audited(self) -> dict[str, Any]:
        """Return what an audit event adds for a deputy."""
        return {"deputy_of": self.deputy_of.pk} if self.deputy_of else {}


@dataclass(frozen=True, kw_only=True)
class Lent:
    """The right of one deputy on one mailbox; `role` is the role of the person on leave."""

    deputy_id: int
    person_id: int
    mailbox_id: UUID
    role: Role


def in_force() -> Q:
    """Return the condition for a deputyship that lasts now, by the database's clock."""
    return Q(starts_at__lte=Now(), ends_at__gt=Now(), ended_at=None)


def may_open(deputy: User | OuterRef | Slot | int) -> Q:
    """Return the condition for a membership that may open its mailbox to this deputy.

    Only managers let somebody into a mailbox. So the person on leave manages it, or the deputy is a
    member of it.
    """
    of_deputy = Membership.objects.filter(mailbox=OuterRef("mailbox"), user=deputy)
    return Q(role=Role.MANAGER) | Q(Exists(of_deputy))


def _lendable() -> QuerySet[Membership]:
    return Membership.objects.filter(
        role__in=Role.at_least(Role.APPROVER),
        user__is_active=True,
    )


def lent_to(deputy: User | OuterRef | Slot | int) -> QuerySet[Membership]:
    """Return the memberships whose right to decide this person has now as a deputy.

    A reference is one to a query that is two levels further out.
    """
    lends = Deputyship.objects.filter(in_force(), person=OuterRef("user"), deputy=deputy)
    return _lendable().filter(
        Exists(lends),
        may_open(deputy),
    )


def deputies_on(mailbox: Slot | UUID) -> QuerySet[Deputyship]:
    """Return the deputyships that give a right to decide on this mailbox now."""
    lent = _lendable().filter(
        may_open(OuterRef(OuterRef("deputy"))), user=OuterRef("person"), mailbox=mailbox
    )
    return Deputyship.objects.filter(in_force(), Exists(lent), deputy__is_active=True)


def find_lent(mailboxes: Iterable[UUID] | None = None) -> list[Lent]:
    """Return the rights of all deputies now, on these mailboxes or on all, in two statements."""
    deputies = dict[int, list[int]]()
    found = Deputyship.objects.filter(in_force(), deputy__is_active=True)
    for person, deputy in found.values_list("person_id", "deputy_id"):
        deputies.setdefault(person, []).append(deputy)
    if not deputies:
        return []
    people = {*deputies, *(each for some in deputies.values() for each in some)}
    members = Membership.objects.filter(user__in=people, user__is_active=True)
    if mailboxes is not None:
        members = members.filter(mailbox__in=list(mailboxes))
    held = {
        (mailbox, user): Role(role)
        for mailbox, user, role in members.values_list("mailbox_id", "user_id", "role")
    }
    return [
        Lent(deputy_id=deputy, person_id=person, mailbox_id=mailbox, role=role)
        for (mailbox, person), role in held.items()
        if role.covers(Role.APPROVER)
        for deputy in deputies.get(person, ())
        if role is Role.MANAGER or (mailbox, deputy) in held
    ]


def seen_mailboxes(person: User | Slot) -> QuerySet[Mailbox]:
    """Return the mailboxes whose actions this person may see, as a member or as a deputy."""
    own = Membership.objects.filter(user=person)
    return Mailbox.objects.filter(
        Q(pk__in=own.values("mailbox")) | Q(pk__in=lent_to(person).values("mailbox"))
    )


def lends_at_decision() -> QuerySet[Deputyship]:
    """Return the deputyship under which a decision of the outer query was made.

    It did not end early: that takes back what has not left. Its usual end takes nothing back.
    """
    return Deputyship.objects.filter(
        person=OuterRef("deputy_of"),
        deputy=OuterRef("person"),
        starts_at__lte=OuterRef("created_at"),
        ends_at__gt=OuterRef("created_at"),
        ended_at=None,
    )
