"""The right to decide about an action: a right of one's own, or as deputy of a person on leave."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from accounts.access.roles import has_role
from accounts.infra.compiled_sql import Rows, slot
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox, Membership, Role, User
from approvals.decisions.records import approving_seats
from approvals.models import ApprovalPolicy, PendingAction
from approvals.rules.deputies import Right, lent_to
from approvals.rules.policy import (
    asks_for_staff,
    count_needed,
    may_approve_at_all,
    own_counts,
    policy_of,
)

PROPOSED_IT = translatable(
    "You proposed this, so you cannot approve it. This mailbox asks for another person."
)
EDITED_IT = translatable(
    "You edited this, so you cannot approve it. This mailbox asks for another person."
)
DEPUTY_EDITED_IT = translatable(
    "Your deputy edited this, so you cannot approve it. This mailbox asks for another person."
)
OF_AUTHOR = translatable(
    "You are the deputy of a person who proposed or edited this. This mailbox asks for another person."
)
SAME_SEAT = translatable(
    "A person on leave and their deputy count as one, and one of them has approved this. "
    "This mailbox asks for another person."
)


@dataclass(frozen=True, kw_only=True)
class Held:
    """The role of a person on a mailbox, and the memberships there that people lend them."""

    role: Role | None
    lent: Sequence[Membership]

    def covers(self, role: Role) -> bool:
        return self.role is not None and self.role.covers(role)


lent_rows = Rows(
    Membership,
    lambda: (
        lent_to(slot(Membership, "user", "person"))
        .filter(mailbox=slot(Membership, "mailbox"))
        .order_by("pk")
    ),
    "user",
)


def held_from(role: Sequence[tuple[Any, ...]], lent: Iterable[tuple[Any, ...]]) -> Held:
    """Return what is in the rows of `role_rows` and of `lent_rows`."""
    return Held(role=Role(role[0][0]) if role else None, lent=lent_rows.load(lent))


def find_right_to_decide(person: User, mailbox: Mailbox, held: Held | None = None) -> Right | None:
    """Return the right to reject, edit, ask back or undo; approving is checked separately.

    A page that has just read what the person holds gives it.
    """
    if held.covers(Role.APPROVER) if held else has_role(person, mailbox, Role.APPROVER):
        return Right(person=person)
    lent = held.lent if held else _read_lent(person, mailbox.pk)
    return Right(person=person, deputy_of=lent[0].user) if lent else None


def _read_lent(person: User, mailbox_id: UUID) -> list[Membership]:
    return lent_rows.load(lent_rows(person=person.pk, mailbox=mailbox_id))


def right_to_decide(person: User, mailbox: Mailbox) -> Right:
    """Return the right to decide; raises `forbidden` without one."""
    right = find_right_to_decide(person, mailbox)
    if right is None:
        raise Problem("forbidden", "You may not decide for this mailbox.")
    return right


def may_decide(person: User, action: PendingAction) -> bool:
    """Return True if this person may reject or undo; the right to approve is checked separately."""
    return find_right_to_decide(person, action.mailbox) is not None


def may_approve(person: User, action: PendingAction) -> bool:
    return refusal_to_approve(person, action) is None


def refusal_to_approve(
    person: User,
    action: PendingAction,
    policy: ApprovalPolicy | None = None,
    held: Held | None = None,
) -> Problem | None:
    """Return why this person may not approve the action, or None if they may.

    A page that has just read the rules of the mailbox, and what the person holds, gives them.
    """
    policy = policy or policy_of(action.mailbox)
    has_role = person.is_active and held.covers(Role(policy.approver_role)) if held else None
    try:
        right_to_approve(action, person, policy, has_role=has_role, held=held)
    except Problem as refusal:
        return refusal
    return None


def right_to_approve(
    action: PendingAction,
    person: User,
    policy: ApprovalPolicy,
    *,
    has_role: bool | None = None,
    held: Held | None = None,
) -> Right:
    """Return the right with which this person may approve; raises `forbidden` without one.

    It is the person's own right if they have one. Otherwise it is one that a person on leave lends
    them, if that person may approve the action too. `has_role` says that the person has the role,
    if that was read under the same lock.
    """
    rights = _rights_of(person, policy, has_role, held)
    if not rights:
        raise Problem("forbidden", "You may not approve for this mailbox.")
    if asks_for_staff(action):
        rights = [each for each in rights if _is_of_staff(each)]
        if not rights:
            raise Problem(
                "forbidden", "Only staff of this server may approve this. Ask your administrator."
            )
    if not own_counts(action, policy):
        rights = _without_authors(action, rights)
    if count_needed(action, policy) > 1:
        rights = _without_used(action, rights)
    return rights[0]


def _rights_of(
    person: User, policy: ApprovalPolicy, has_role: bool | None, held: Held | None
) -> list[Right]:
    if may_approve_at_all(person, policy) if has_role is None else has_role:
        return [Right(person=person)]
    return [
        Right(person=person, deputy_of=each.user)
        for each in (held.lent if held else _read_lent(person, policy.mailbox_id))
        if Role(each.role).covers(Role(policy.approver_role))
    ]


def _is_of_staff(right: Right) -> bool:
    return right.person.is_staff and (right.deputy_of is None or right.deputy_of.is_staff)


def _without_authors(action: PendingAction, rights: list[Right]) -> list[Right]:
    """Leave out rights of the proposer and of authors; raises `forbidden` if none is left."""
    person = rights[0].person
    if action.proposer_id == person.pk:
        raise Problem("forbidden", PROPOSED_IT)
    rows = list(action.revisions.values_list("author_id", "deputy_of_id"))
    authors = {author for author, _ in rows}
    lenders = {lent_by for _, lent_by in rows if lent_by is not None}
    if person.pk in authors:
        raise Problem("forbidden", EDITED_IT)
    if person.pk in lenders:
        raise Problem("forbidden", DEPUTY_EDITED_IT)
    authors |= {action.proposer_id, *lenders}
    left = [each for each in rights if each.seat not in authors]
    if not left:
        raise Problem("forbidden", OF_AUTHOR)
    return left


def _without_used(action: PendingAction, rights: list[Right]) -> list[Right]:
    """Leave out rights with which somebody else has approved; raises `forbidden` if none is left."""
    used = {
        seat for person, seat in approving_seats(action).items() if person != rights[0].person.pk
    }
    left = [each for each in rights if each.seat not in used]
    if not left:
        raise Problem("forbidden", SAME_SEAT)
    return left
