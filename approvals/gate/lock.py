"""An action with its row locked, with or without what an approval depends on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from django.db.models import Exists, OuterRef, Subquery
from django.db.models.functions import Now

from accounts.infra.compiled_sql import Rows, Select, read_all, slot
from accounts.infra.problems import not_found
from accounts.models import ApiToken, Membership, Role, User
from approvals.audit import chain
from approvals.gate.news import find_void_decisions
from approvals.gate.records import approvals_of, approving, check_approvals, describe_approved
from approvals.gate.rules.policy import policy_from, policy_rows
from approvals.models import ApprovalPolicy, PendingAction, Revision

_locked = Rows(
    PendingAction,
    lambda: PendingAction.objects.select_for_update(no_key=True, of=("self",)).filter(
        pk=slot(PendingAction, "id", "pk")
    ),
    "mailbox",
)
_revision = Rows(
    Revision,
    lambda: Revision.objects.filter(
        action=slot(Revision, "action"), number=slot(Revision, "number")
    ).order_by(),
)
_person = Select(
    lambda: (
        User.objects.filter(pk=slot(User, "id", "pk"))
        .order_by()
        .values_list(
            "is_active",
            Subquery(
                Membership.objects.filter(
                    user=OuterRef("pk"), mailbox=slot(Membership, "mailbox")
                ).values("role")
            ),
            Subquery(
                Membership.objects.filter(
                    user=OuterRef("pk"), mailbox=slot(Membership, "mailbox")
                ).values("pk")
            ),
            "generation",
            Now(),
        )
    )
)
_around = Select(
    lambda: (
        PendingAction.objects.filter(pk=slot(PendingAction, "id", "pk"))
        .order_by()
        .values_list(
            Subquery(ApiToken.objects.filter(pk=OuterRef("token_id")).values("generation")),
            Exists(
                find_void_decisions(
                    OuterRef("pk"), OuterRef("revision"), OuterRef("approval_round")
                )
            ),
        )
    )
)


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """A locked action with its rules, who approved it, the time by the database's clock, if the
    person has the role to approve, and the locked end of its audit chain.

    `tenure` is what a decision of the person rests on. `has_news` is True if something has happened
    that the present revision does not show.
    """

    action: PendingAction
    policy: ApprovalPolicy
    approvals: dict[int, bool]
    now: datetime
    has_role: bool
    tenure: tuple[int | None, int]
    has_news: bool
    end: chain.LockedEnd | None


def lock_action(action_id: UUID) -> PendingAction:
    return _only(_locked(pk=action_id))


def lock_ballot(seen: PendingAction, person: User) -> Ballot:
    """Lock an action that was read before, and read what an approval by this person depends on.

    All of it is read under the lock. `seen` only says what to ask for.
    """
    approved = describe_approved(seen)
    locked, policy, role, revision, approvals, around, end = read_all(
        (_locked, {"pk": seen.pk}),
        (policy_rows, {"mailbox": seen.mailbox_id}),
        (_person, {"pk": person.pk, "mailbox": seen.mailbox_id}),
        (_revision, {"action": seen.pk, "number": seen.revision}),
        (approving, approved),
        (_around, {"pk": seen.pk}),
        (chain.end_of_chain, {"pk": seen.mailbox_id}),
    )
    action = _only(locked)
    if action.revision == seen.revision:
        (action.current,) = _revision.load(revision)
    rules = policy_from(policy, action.mailbox)
    ((is_active, own, membership, account, now),) = role
    ((token, has_void),) = around
    return Ballot(
        action=action,
        policy=rules,
        approvals=(
            check_approvals(approvals, approved)
            if describe_approved(action) == approved
            else approvals_of(action)
        ),
        now=now,
        has_role=is_active and own in Role.at_least(Role(rules.approver_role)),
        tenure=(membership, account),
        has_news=has_void
        or token not in (None, action.token_generation)
        or action.mailbox.generation != action.mailbox_generation,
        end=chain.read_end(end),
    )


def _only(rows: Sequence[tuple[Any, ...]]) -> PendingAction:
    if not rows:
        raise not_found("The action does not exist, or you may not see it.")
    (action,) = _locked.load(rows)
    return cast(PendingAction, action)
