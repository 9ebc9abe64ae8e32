"""Whose approval counts: one definition, for decisions and for the claim's UPDATE.

A database trigger says it once more (`approvals.guards.rules`), so that no code can count otherwise.
"""

from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.models import Membership, Role
from approvals.models import ApprovalPolicy, Author, Decision, PendingAction


def find_counted(action: PendingAction) -> set[int]:
    """Return the people whose approval of the present content counts."""
    found = _filter_counting(
        stored_approvals(
            action=action.pk,
            revision=action.revision,
            digest=action.digest,
            approval_round=action.approval_round,
        )
    )
    return set(found.values_list("person_id", flat=True))


def number_that_counts() -> Coalesce:
    """Return how many people's approvals count, for an action of the outer query."""
    people = _filter_counting(find_approvals()).order_by().values("action")
    count = people.annotate(people=Count("person", distinct=True)).values("people")
    return Coalesce(Subquery(count), 0)


def stored_approvals(
    *, action: Any, revision: Any, digest: Any, approval_round: Any
) -> QuerySet[Decision]:
    """Return the approvals of this revision, digest and round, whether they count or not.

    The arguments are values, slots, or references to an outer query.
    """
    return Decision.objects.filter(
        action=action,
        verdict=Decision.Verdict.APPROVED,
        revision=revision,
        digest=digest,
        approval_round=approval_round,
    )


def find_approvals() -> QuerySet[Decision]:
    """Return the approvals of the action of the outer query, whether they count or not."""
    # References instead of a join: see the module text of `approvals.gate.rules.conditions`.
    return stored_approvals(
        action=OuterRef("pk"),
        revision=OuterRef("revision"),
        digest=OuterRef("digest"),
        approval_round=OuterRef("approval_round"),
    )


def waits_for_others(person: int) -> Q:
    """Return the condition of pending actions that others must approve: the approval of this
    person counts already, or would not count.
    """
    counts = Exists(_filter_counting(find_approvals().filter(person=person)))
    wrote = Q(proposer=person) | Q(
        Exists(Author.objects.filter(action=OuterRef("pk"), person=person))
    )
    rules = ApprovalPolicy.objects.filter(mailbox=OuterRef("mailbox"))
    four_eyes = Q(approvals_needed__gt=1) | Q(
        Exists(rules.filter(Q(self_approval=False) | Q(approvals_needed__gt=1)))
    )
    manages = Exists(
        Membership.objects.filter(mailbox=OuterRef("mailbox"), user=person, role=Role.MANAGER)
    )
    managers_only = Exists(rules.filter(approver_role=ApprovalPolicy.Approvers.MANAGER))
    return (
        (Q(approvals_given__gt=0) & Q(counts))
        | (wrote & four_eyes)
        | (Q(managers_only) & ~Q(manages))
    )


def _filter_counting(approvals: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
    """Return those of the approvals whose person may still approve.

    It counts only for the membership and the account with which it was given: none counts again if
    its person leaves the mailbox and comes back, or if their account is closed and opened again.
    The authors count only if one approval is enough and the mailbox allows it.
    """
    managers_only = ApprovalPolicy.objects.filter(
        mailbox=OuterRef("mailbox"), approver_role=ApprovalPolicy.Approvers.MANAGER
    )
    still_may = Membership.objects.filter(
        Q(role=Role.MANAGER)
        | (Q(role__in=Role.at_least(Role.APPROVER)) & ~Q(Exists(managers_only))),
        mailbox=OuterRef("action__mailbox"),
        user=OuterRef("person"),
        pk=OuterRef("membership"),
    )
    four_eyes = ApprovalPolicy.objects.filter(
        Q(self_approval=False) | Q(approvals_needed__gt=1), mailbox=OuterRef("action__mailbox")
    )
    wrote = Author.objects.filter(action=OuterRef("action"), person=OuterRef("person"))
    return approvals.filter(
        ~Q(Exists(wrote)) | (Q(action__approvals_needed=1) & ~Q(Exists(four_eyes))),
        ~Q(action__kind__in=settings.MAILHUB_STAFF_KINDS) | Q(person__is_staff=True),
        Exists(still_may),
        person__is_active=True,
        account_generation=F("person__generation"),
    )
