"""The people who may approve each of many actions, in a constant number of statements.

It is the bulk form of `refusal_to_approve` in `approvals.gate.rules.policy`, and only says whom to
notify. A decision checks the rights itself.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from accounts.models import Membership, Role
from approvals.gate.rules.conditions import filter_counting
from approvals.gate.rules.policy import asks_for_staff, own_counts
from approvals.models import ApprovalPolicy, Author, Decision, PendingAction

People = Mapping[UUID, Collection[int]]  # the ids of people, by action or mailbox


def find_approvers(actions: Sequence[PendingAction]) -> dict[UUID, set[int]]:
    """Return for each action the people who may approve it and have not yet done so."""
    return {action_id: set(people) for action_id, people in _find_roles(actions).items()}


def find_first(actions: Sequence[PendingAction]) -> dict[UUID, set[int]]:
    """Return the approvers who are notified first: all, unless the mailbox escalates to managers.

    If nobody but managers may approve an action, they are notified first.
    """
    return {action_id: first for action_id, (first, _) in _find_lines(actions).items()}


def find_next(actions: Sequence[PendingAction]) -> dict[UUID, set[int]]:
    """Return the approvers who are notified if nobody has decided in time, whether others are left
    who could be first or not.
    """
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
        later = {
            user
            for user, role in roles.items()
            if role is Role.MANAGER and mailbox_of[action_id] in escalating
        }
        found[action_id] = (roles.keys() - later or later, later)
    return found


def _find_roles(actions: Sequence[PendingAction]) -> dict[UUID, dict[int, Role]]:
    """Return for each action the people who may approve it, each with the role they use."""
    mailboxes = {action.mailbox_id for action in actions}
    policies = {
        policy.mailbox_id: policy for policy in ApprovalPolicy.objects.filter(mailbox__in=mailboxes)
    }
    members: dict[UUID, list[tuple[int, Role, bool]]] = defaultdict(list)
    for mailbox, user, role, staff in Membership.objects.filter(
        mailbox__in=mailboxes, role__in=Role.at_least(Role.APPROVER), user__is_active=True
    ).values_list("mailbox", "user", "role", "user__is_staff"):
        members[mailbox].append((user, Role(role), staff))
    without = _find_approved(actions)
    needed: dict[UUID, Role] = {}
    four_eyes = set()
    for action in actions:
        policy = policies.get(action.mailbox_id) or ApprovalPolicy(mailbox_id=action.mailbox_id)
        needed[action.pk] = Role(policy.approver_role)
        if not own_counts(action, policy):
            four_eyes.add(action.pk)
    for action_id, author in Author.objects.filter(action__in=four_eyes).values_list(
        "action", "person"
    ):
        without[action_id].add(author)
    return {
        action.pk: {
            user: role
            for user, role, staff in members[action.mailbox_id]
            if role.covers(needed[action.pk])
            and (staff or not asks_for_staff(action))
            and user not in without[action.pk]
        }
        for action in actions
    }


def find_with_role(mailboxes: Collection[UUID], needed: Role) -> dict[UUID, set[int]]:
    """Return the active people with at least this role, by mailbox."""
    found: dict[UUID, set[int]] = {mailbox: set() for mailbox in mailboxes}
    for mailbox, user in Membership.objects.filter(
        mailbox__in=mailboxes, role__in=Role.at_least(needed), user__is_active=True
    ).values_list("mailbox", "user"):
        found[mailbox].add(user)
    return found


def _find_approved(actions: Sequence[PendingAction]) -> dict[UUID, set[int]]:
    given: dict[UUID, set[int]] = defaultdict(set)
    current = {action.pk: (action.approval_round, action.revision) for action in actions}
    approvals = Decision.objects.filter(action__in=current, verdict=Decision.Verdict.APPROVED)
    for action_id, person, number, revision in filter_counting(approvals).values_list(
        "action", "person", "approval_round", "revision"
    ):
        if current[action_id] == (number, revision):
            given[action_id].add(person)
    return given
