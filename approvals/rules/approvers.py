"""The people who may approve each of many actions, in a constant number of statements.

It is the bulk form of `refusal_to_approve` in `approvals.decisions.rights`, and only says whom to
notify. A decision checks the rights itself.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from accounts.models import Membership, Role, User
from approvals.models import ApprovalPolicy, Decision, PendingAction, Revision
from approvals.rules.deputies import find_lent
from approvals.rules.policy import asks_for_staff, own_counts

People = Mapping[UUID, Collection[int]]  # the ids of people, by action or mailbox


@dataclass(frozen=True, kw_only=True)
class _Holder:
    """A person with a right to approve in a mailbox; `seat` is the person whose right it is."""

    user: int
    seat: int
    role: Role
    staff: bool


def find_approvers(actions: Sequence[PendingAction]) -> dict[UUID, set[int]]:
    """Return for each action the people who may approve it and have not yet done so."""
    return {action_id: set(people) for action_id, people in _find_roles(actions).items()}


def find_first(actions: Sequence[PendingAction]) -> dict[UUID, set[int]]:
    """Return the approvers who are notified first: all, unless the mailbox escalates to managers.

    If nobody but managers may approve an action, they are notified first.
    """
    return {action_id: first for action_id, (first, _) in _find_lines(actions).items()}


def find_next(actions: Sequence[PendingAction]) -> dict[UUID, set[int]]:
    """Return the approvers who are notified if the first ones have not decided in time."""
    return {action_id: later for action_id, (_, later) in _find_lines(actions).items()}


def _find_lines(actions: Sequence[PendingAction]) -> dict[UUID, tuple[set[int], set[int]]]:
    escalating = set(
        ApprovalPolicy.objects.filter(
            mailbox__in={action.mailbox_id for action in actions},
            escalation_minutes__isnull=False,
        ).values_list("mailbox", flat=True)
    )
    mailbox_of = {action.pk: action.mailbox_id for action in actions}
    found = {}
    for action_id, roles in _find_roles(actions).items():
        everybody = set(roles)
        first = {user for user, role in roles.items() if role is not Role.MANAGER}
        if mailbox_of[action_id] not in escalating or not first:
            first = everybody
        found[action_id] = (first, everybody - first)
    return found


def _find_roles(actions: Sequence[PendingAction]) -> dict[UUID, dict[int, Role]]:
    """Return for each action the people who may approve it, each with the role they use."""
    mailboxes = {action.mailbox_id for action in actions}
    policies = {
        policy.mailbox_id: policy for policy in ApprovalPolicy.objects.filter(mailbox__in=mailboxes)
    }
    holders = _find_holders(mailboxes)
    without = _find_approved(actions)
    four_eyes = set()
    for action in actions:
        policy = policies.get(action.mailbox_id) or ApprovalPolicy(mailbox_id=action.mailbox_id)
        if not own_counts(action, policy):
            four_eyes.add(action.pk)
            without[action.pk].add(action.proposer_id)
    for action_id, author, lent_by in Revision.objects.filter(action__in=four_eyes).values_list(
        "action", "author", "deputy_of"
    ):
        without[action_id] |= {author, lent_by or author}
    found: dict[UUID, dict[int, Role]] = {}
    for action in actions:
        policy = policies.get(action.mailbox_id) or ApprovalPolicy(mailbox_id=action.mailbox_id)
        for_staff, needed = asks_for_staff(action), Role(policy.approver_role)
        able = [each for each in holders[action.mailbox_id] if each.role.covers(needed)]
        own = {each.user for each in able if each.user == each.seat}
        found[action.pk] = {
            each.user: each.role
            for each in able
            if (each.staff or not for_staff)
            and (each.user == each.seat or each.user not in own)
            and not {each.user, each.seat} & without[action.pk]
        }
    return found


def _find_holders(mailboxes: Collection[UUID]) -> dict[UUID, list[_Holder]]:
    """Return the people who may approve in each mailbox, as members and as deputies."""
    found: dict[UUID, list[_Holder]] = defaultdict(list)
    for mailbox, user, role, staff in Membership.objects.filter(
        mailbox__in=mailboxes, role__in=Role.at_least(Role.APPROVER), user__is_active=True
    ).values_list("mailbox", "user", "role", "user__is_staff"):
        found[mailbox].append(_Holder(user=user, seat=user, role=Role(role), staff=staff))
    lent = find_lent(mailboxes)
    people = {key for each in lent for key in (each.deputy_id, each.person_id)}
    of_staff = set(
        User.objects.filter(pk__in=people, is_staff=True).values_list("pk", flat=True)
        if people
        else ()
    )
    for each in lent:
        found[each.mailbox_id].append(
            _Holder(
                user=each.deputy_id,
                seat=each.person_id,
                role=each.role,
                staff={each.deputy_id, each.person_id} <= of_staff,
            )
        )
    return found


def find_with_role(mailboxes: Collection[UUID], needed: Role) -> dict[UUID, set[int]]:
    """Return the active people with at least this role, by mailbox. A deputy has no role of managers."""
    found: dict[UUID, set[int]] = {mailbox: set() for mailbox in mailboxes}
    for mailbox, user in Membership.objects.filter(
        mailbox__in=mailboxes, role__in=Role.at_least(needed), user__is_active=True
    ).values_list("mailbox", "user"):
        found[mailbox].add(user)
    if Role.APPROVER.covers(needed):
        for lent in find_lent(mailboxes):
            found[lent.mailbox_id].add(lent.deputy_id)
    return found


def _find_approved(actions: Sequence[PendingAction]) -> dict[UUID, set[int]]:
    """Return the people who have approved the present content of each action, or lent a right for it."""
    given: dict[UUID, set[int]] = defaultdict(set)
    current = {action.pk: (action.approval_round, action.revision) for action in actions}
    for action_id, person, lent_by, number, revision in Decision.objects.filter(
        action__in=current, verdict=Decision.Verdict.APPROVED
    ).values_list("action", "person", "deputy_of", "approval_round", "revision"):
        if current[action_id] == (number, revision):
            given[action_id] |= {person, lent_by or person}
    return given
