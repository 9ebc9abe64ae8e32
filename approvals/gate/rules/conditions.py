"""Conditions of the claim, judged by the database, by its clock, inside the claim's UPDATE, and
whose approval counts: one definition, for decisions too.

A trigger says the latter once more (`approvals.guards.rules`), so that no code can count otherwise.

There are two sorts of refusal. If the approval is void, the action goes back to a person with the
reason. If the action is only held back, it stays approved and waits.

There are no joins: PostgreSQL would not check a condition on a joined table again when it waits for
a row that another worker is claiming. Each condition looks up the rows of one mailbox by an index,
so a claim costs the same with ten mailboxes and with 10,000.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import BooleanField, Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce, Greatest, Now
from django.db.models.lookups import GreaterThan, IsNull

from accounts.infra.texts import translatable
from accounts.models import ApiToken, Mailbox, Membership, Role
from approvals.core.signatures import verify_decision
from approvals.core.states import Status
from approvals.models import ApprovalPolicy, Attempt, Author, Decision, Pause, PendingAction, Rest

A_DAY = timedelta(days=1)
REACHABLE = (Mailbox.Status.ACTIVE, Mailbox.Status.ERROR)
# A lookup needs the provider. It is allowed in a paused mailbox, but not in one that must be
# reconnected.
MAY_LOOK = (*REACHABLE, Mailbox.Status.PAUSED)


def is_in_mailbox_that_may_look() -> Q:
    """Return the condition for an action whose mailbox can be asked."""
    return has_any(Mailbox.objects.filter(pk=OuterRef("mailbox"), status__in=MAY_LOOK))


def may_execute() -> Q:
    """Return the condition for a claim.

    The action is approved by enough people who still may approve, is due and not held back, was not
    in a restored copy, and no other mail is leaving this mailbox.
    """
    return Q(status=Status.APPROVED, unreconciled=False) & due() & still_holds() & ~must_wait()


def may_execute_now() -> RawSQL:
    """Return the same for rows of PendingAction itself, not of a subquery.

    Making this SQL takes five times as long as all else in a claim, so a process makes it once.
    """
    # The text is Django's own, and holds no value of a caller.
    return RawSQL(*_sql_of_claim(connection.vendor), output_field=BooleanField())  # noqa: S611


@cache
def _sql_of_claim(vendor: str) -> tuple[str, tuple[Any, ...]]:
    rows = PendingAction.objects.filter(may_execute()).order_by().values("pk")
    text, parameters = rows.query.sql_with_params()
    return text.partition(" WHERE ")[2], parameters


def still_holds() -> Q:
    """Return the condition for an approval that has not expired and is not void."""
    return Q(expires_at__gt=Now()) & ~is_void()


def due() -> Q:
    """Return the condition for an action whose time has come. Each approval writes a time."""
    return Q(not_before__lte=Now())


def must_wait() -> Q:
    """Return the condition for an action that has to wait, for one of the reasons to wait."""
    anything = Q()
    for rows in (*reasons_of_pauses(), *reasons_to_wait()):
        anything |= has_any(rows)
    return anything


def reasons_of_pauses() -> list[QuerySet[Any]]:
    """Return the pauses of everything, and those of the mailbox of the outer query."""
    return [
        Pause.objects.filter(mailbox=None),
        Pause.objects.filter(mailbox=OuterRef("mailbox")),
    ]


def reasons_to_wait() -> list[QuerySet[Any]]:
    """Return the rows that hold back the mail of the mailbox of the outer query.

    They are a mailbox that must be reconnected, a cool-down, another mail that is leaving, and
    rules with a closed send window or a reached daily limit.
    """
    here = OuterRef("mailbox")
    return [
        Mailbox.objects.filter(pk=here).exclude(status__in=REACHABLE),
        Rest.objects.filter(mailbox=here, until__gt=Now()),
        PendingAction.objects.filter(mailbox=here, status=Status.EXECUTING),
        ApprovalPolicy.objects.filter(outside_window() | day_is_full(), mailbox=here),
    ]


def has_any(rows: QuerySet[Any]) -> Q:
    """Return the condition that there are such rows, which refer to the outer query.

    PostgreSQL answers many EXISTS at once: it reads the whole table and keeps all that match. The
    first row that matches is looked up for each action.
    """
    return Q(IsNull(Subquery(rows.order_by().values("pk")[:1]), False))  # the value of the lookup


def outside_window() -> Q:
    """Return the condition for a policy with a closed send window. The sweeper sets the next."""
    return Q(opens_at__gt=Now()) | Q(closes_at__lte=Now())


def day_is_full() -> Q:
    """Return the condition for a policy whose daily limit is reached.

    It counts the mails that left, or may have left, within 24 hours.
    """
    lately = Attempt.objects.filter(
        action=OuterRef("pk"), fence=OuterRef("fence"), wire_started_at__gt=Now() - A_DAY
    )
    left = PendingAction.objects.filter(
        Q(status=Status.SUCCEEDED, finished_at__gt=Now() - A_DAY)
        | Q(Exists(lately), status=Status.UNKNOWN),
        mailbox=OuterRef("mailbox"),
    )
    count = left.order_by().values("mailbox").annotate(n=Count("pk")).values("n")
    return Q(daily_cap__isnull=False, daily_cap__lte=Coalesce(Subquery(count), 0))


def is_void() -> Q:
    """Return the condition for an approval that is void, for one of the reasons in VOID."""
    anything = Q()
    for condition, _ in VOID.values():
        anything |= condition()
    return anything


def approval_over() -> Q:
    return Q(approved_until__isnull=False, approved_until__lte=Now())


def is_disconnected() -> Q:
    """Return the condition for a mailbox that is disconnected, or was since the present revision,
    or was connected to another account.
    """
    other = Q(status=Mailbox.Status.DISCONNECTED) | ~Q(generation=OuterRef("mailbox_generation"))
    return has_any(Mailbox.objects.filter(other, pk=OuterRef("mailbox")))


def is_token_revoked() -> Q:
    return is_token_changed(revoked_at__isnull=False)


def is_token_changed(**more: Any) -> Q:
    """Return the condition for a token that lost rights since the revision that was approved.

    What it lost before is a warning of that revision.
    """
    changed = ApiToken.objects.filter(
        ~Q(generation=OuterRef("token_generation")), pk=OuterRef("token_id"), **more
    )
    return Q(token_id__isnull=False) & has_any(changed)


def is_from_older_version() -> Q:
    """Return the condition for an approval that does not name what it rests on."""
    return has_any(find_approvals().filter(membership=None))


def are_rules_changed() -> Q:
    """Return the condition for rules about recipients or approvers that changed since the approval.

    If the new rules still allow the action, its `rules_version` follows them.
    """
    newer = ApprovalPolicy.objects.filter(
        ~Q(version=OuterRef("rules_version")), mailbox=OuterRef("mailbox")
    )
    return has_any(newer)


def are_approvers_lost() -> Q:
    now_asked = ApprovalPolicy.objects.filter(mailbox=OuterRef("mailbox")).values(
        "approvals_needed"
    )
    return Q(
        GreaterThan(
            Greatest("approvals_needed", Coalesce(Subquery(now_asked), 1)), number_that_counts()
        )
    )


UNPROVEN = "approval_unproven"
VOID = {
    UNPROVEN: (
        is_from_older_version,
        translatable(
            "The approval has no valid signature. It is from before an upgrade or a change of keys, or somebody wrote"
            " it into the database. Look at the message and decide again."
        ),
    ),
    "mailbox_disconnected": (
        is_disconnected,
        translatable("The mailbox was disconnected after the approval."),
    ),
    "approver_lost": (
        are_approvers_lost,
        translatable("Somebody who approved it may no longer approve for this mailbox."),
    ),
    "rules_changed": (
        are_rules_changed,
        translatable(
            "The rules about recipients or approvers changed after the approval, so that it no longer counts."
        ),
    ),
    "approval_over": (
        approval_over,
        translatable("The approval was valid for a limited time, and that time is over."),
    ),
    "token_revoked": (
        is_token_revoked,
        translatable("The token that proposed it was revoked after the approval."),
    ),
    "token_narrowed": (
        is_token_changed,
        translatable("Rights were taken away from the token that proposed it after the approval."),
    ),
}


# --- Whose approval counts ---


def find_counted(action: PendingAction) -> set[int]:
    """Return the people whose approval of the present content counts."""
    found = filter_counting(
        stored_approvals(
            action=action.pk,
            revision=action.revision,
            digest=action.digest,
            approval_round=action.approval_round,
        )
    )
    return set(found.values_list("person_id", flat=True))


def count_given(action: PendingAction) -> int:
    """Return how many approvals of an action count. While it waits, the end of a membership's days
    or the recovery of an account takes one away, and nothing writes that down.
    """
    if action.status != Status.PENDING or not action.approvals_given:
        return action.approvals_given
    return len(find_counted(action))


def approvals_of(action: PendingAction) -> dict[int, bool]:
    """Return who approved this revision, digest and round, with True if all their signatures are
    valid.
    """
    approved: dict[str, Any] = {
        "action": action.pk,
        "revision": action.revision,
        "digest": action.digest,
        "approval_round": action.approval_round,
    }
    decisions = stored_approvals(**approved)
    found: dict[int, bool] = {}
    for said in decisions.values(
        "person", "method", "verdict", "created_at", "membership", "account_generation"
    ).annotate(signature=F("seal")):
        is_valid = verify_decision(**said, **approved)
        found[said["person"]] = found.get(said["person"], True) and is_valid
    return found


def approving_people(action: PendingAction, approvals: Mapping[int, bool]) -> set[int]:
    """Return the people whose approval counts; the approvals are those of `approvals_of`."""
    proven = {person for person, holds in approvals.items() if holds}
    return find_counted(action) & proven if proven else set()


def number_that_counts() -> Coalesce:
    """Return how many people's approvals count, for an action of the outer query."""
    people = filter_counting(find_approvals()).order_by().values("action")
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
    # References instead of a join: see the module text.
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
    counts = Exists(filter_counting(find_approvals().filter(person=person)))
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


def filter_counting(approvals: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
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
