"""The right to decide about an action, read from the membership that a person has now."""

from accounts.access.roles import has_role
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox, Role, User
from accounts.people.second_factor import FactorMissing, lacks_factor
from approvals.gate.rules.policy import (
    approvers_of,
    asks_for_staff,
    may_approve_at_all,
    own_counts,
    policy_of,
)
from approvals.gate.rules.quorum import find_counted
from approvals.models import ApprovalPolicy, PendingAction

PROPOSED_IT = translatable(
    "You proposed this, so you cannot approve it. This mailbox asks for another person."
)
WROTE_IT = translatable(
    "You wrote a part of this or asked for its changes, so you cannot approve it. "
    "This mailbox asks for another person."
)


def may_decide(person: User, mailbox: Mailbox) -> bool:
    """Return True if this person may reject, edit, ask back or undo; `check_approver` is for the
    right to approve.
    """
    return has_role(person, mailbox, Role.APPROVER)


def check_reviewer(person: User, mailbox: Mailbox) -> None:
    """Raise `forbidden` for a person who may not decide."""
    if not may_decide(person, mailbox):
        raise Problem("forbidden", "You may not decide for this mailbox.")


def may_approve(person: User, action: PendingAction) -> bool:
    return refusal_to_approve(person, action, policy_of(action.mailbox)) is None


def find_remaining_approvers(action: PendingAction, policy: ApprovalPolicy) -> list[User]:
    """Return the people whose approval the action can still get, by name."""
    people = User.objects.filter(
        pk__in=approvers_of(policy).values("user"), is_active=True
    ).exclude(pk__in=find_counted(action))
    if asks_for_staff(action):
        people = people.filter(is_staff=True)
    if not own_counts(action, policy):
        people = people.exclude(pk=action.proposer_id).exclude(
            pk__in=action.authors.values("person")
        )
    return sorted(people, key=str)


def check_approver(person: User, action: PendingAction, policy: ApprovalPolicy) -> None:
    """Raise `forbidden` for a person who may not approve the action now.

    Every approval that is stored passes this. `FactorMissing` leads to the set-up of a factor.
    """
    if refusal := refusal_to_approve(person, action, policy):
        raise refusal
    if lacks_factor(person):
        raise FactorMissing


def refusal_to_approve(
    person: User, action: PendingAction, policy: ApprovalPolicy
) -> Problem | None:
    """Return why this person has no right to approve the action, or None if they have it."""
    if not may_approve_at_all(person, policy):
        return Problem("forbidden", "You may not approve for this mailbox.")
    if asks_for_staff(action) and not person.is_staff:
        return Problem(
            "forbidden", "Only staff of this server may approve this. Ask your administrator."
        )
    if own_counts(action, policy):
        return None
    if action.proposer_id == person.pk:
        return Problem("forbidden", PROPOSED_IT)
    if action.authors.filter(person=person).exists():
        return Problem("forbidden", WROTE_IT)
    return None
