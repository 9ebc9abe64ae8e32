"""Changes of a mailbox's rules, with an audit event that names them."""

from collections.abc import Mapping
from datetime import time
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from accounts.access.roles import has_role
from accounts.infra.database import database_now
from accounts.infra.problems import Problem
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import Mailbox, Role, User
from approvals.audit import chain
from approvals.core.states import Status
from approvals.gate.rules.conditions import are_approvers_lost, find_counted, number_that_counts
from approvals.gate.rules.policy import find_blocked, keep_until_it_opens, window_of
from approvals.models import ApprovalPolicy, Decision, PendingAction

LISTS = ("allowed", "refused")
VERSIONED = (
    *LISTS,
    "approver_role",
    "approvals_needed",
    "self_approval",
)  # an approval rests on them
WINDOW = frozenset({"open_days", "open_from", "open_until", "time_zone"})
RULES = (
    "approver_role", "approvals_needed", "self_approval", "files_opened", "action_hours", "approval_minutes",
    "undo_seconds", "allowed", "refused", "daily_cap", "open_days", "open_from", "open_until", "time_zone",
    "notify_content", "notify_urgent", "escalation_minutes", "confirmed_domains",
)  # fmt: skip


@retry_if_rolled_back
@transaction.atomic
def change_rules(*, mailbox: Mailbox, person: User, rules: Mapping[str, Any]) -> ApprovalPolicy:
    """Set the rules of a mailbox; the claim judges approved actions by them. Raises `forbidden`.

    The audit names each changed rule with its value before and after. For the recipient lists it
    keeps only their lengths, since an address is personal.
    """
    if not has_role(person, mailbox, Role.MANAGER):
        raise Problem("forbidden", "Only managers can change the rules of this mailbox.")
    ApprovalPolicy.objects.get_or_create(mailbox=mailbox)
    policy = ApprovalPolicy.objects.select_for_update(no_key=True).get(mailbox=mailbox)
    before = {name: getattr(policy, name) for name in RULES}
    changed = [name for name in RULES if rules[name] != before[name]]
    if not changed:
        return policy
    for name in changed:
        setattr(policy, name, rules[name])
    now = database_now()
    window = window_of(policy, now)
    policy.opens_at, policy.closes_at = window or (None, None)
    policy.window_set_at = now if window else None
    is_newer = any(name in changed for name in VERSIONED)
    policy.version += is_newer
    policy.save()
    if is_newer:
        _keep_what_is_still_allowed(policy)
        _begin_new_rounds(mailbox, person)
    if WINDOW.intersection(changed):
        keep_until_it_opens(policy)
    told = {
        name: [_describe_value(name, before[name]), _describe_value(name, rules[name])]
        for name in changed
    }
    chain.record(
        mailbox=mailbox,
        event="policy_changed",
        actor=f"user:{person.pk}",
        changed=told,
        anchored=True,
    )
    return policy


def _keep_what_is_still_allowed(policy: ApprovalPolicy) -> None:
    """Keep actions approved if the new rules allow their recipients and enough approvals count."""
    for action in PendingAction.objects.filter(
        ~are_approvers_lost(),
        mailbox=policy.mailbox_id,
        status=Status.APPROVED,
        rules_version=policy.version - 1,  # what earlier rules made void stays void
    ).order_by("pk"):
        if not find_blocked(
            policy, [target["address"] for target in action.current.preview["targets"]]
        ):
            PendingAction.objects.filter(
                pk=action.pk, status=Status.APPROVED, approval_round=action.approval_round
            ).update(rules_version=policy.version)


def _begin_new_rounds(mailbox: Mailbox, person: User) -> None:
    """Begin a new round where an approval given no longer counts, and where those given would now be
    enough: nobody who has approved can approve once more in this round.
    """
    begun = PendingAction.objects.filter(
        mailbox=mailbox, status=Status.PENDING, approvals_given__gt=0
    )
    begun = begun.filter(Q(approvals_given__gt=number_that_counts()) | ~are_approvers_lost())
    locked = begun.select_for_update(no_key=True, of=("self",)).order_by("pk")
    void = list(locked.values_list("pk", flat=True))
    PendingAction.objects.filter(pk__in=void).update(
        approvals_given=0, approval_round=F("approval_round") + 1
    )
    for action_id in void:
        chain.record(
            mailbox=mailbox,
            event="approvals_void",
            actor=f"user:{person.pk}",
            action_id=action_id,
        )


def _describe_value(name: str, value: Any) -> Any:
    if name in LISTS:
        return len(value)
    return value.strftime("%H:%M") if isinstance(value, time) else value


def recount_approvals(mailbox: Mailbox, user_id: int) -> list[UUID]:
    """Recount the approvals of pending actions that they approved; return those that lost one.

    The audit is written later: an approval locks the action first and then the chain, so the same
    order here avoids a deadlock.
    """
    lost = []
    waiting = (
        PendingAction.objects.select_for_update(no_key=True, of=("self",))
        .filter(
            mailbox=mailbox,
            status=Status.PENDING,
            pk__in=Decision.objects.filter(
                person=user_id, verdict=Decision.Verdict.APPROVED
            ).values("action"),
        )
        .order_by("pk")
    )
    for action in waiting:
        given = len(find_counted(action))
        if given != action.approvals_given:
            PendingAction.objects.filter(pk=action.pk, status=Status.PENDING).update(
                approvals_given=given
            )
            lost.append(action.pk)
    return lost


def record_lost(mailbox: Mailbox, user_id: int, actions: list[UUID]) -> None:
    """Record in the history of each action that an approval was lost."""
    for action_id in actions:
        chain.record(
            mailbox=mailbox,
            event="approval_lost",
            actor="worker",
            action_id=action_id,
            member=user_id,
        )
