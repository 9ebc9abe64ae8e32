"""Conditions of the claim, judged by the database, by its clock, inside the claim's UPDATE.

There are two sorts of refusal. If the approval is void, the action goes back to a person with the
reason. If the action is only held back, it stays approved and waits.

There are no joins: PostgreSQL would not check a condition on a joined table again when it waits for
a row that another worker is claiming.
"""

from datetime import timedelta

from django.db.models import Count, Exists, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Greatest, Now
from django.db.models.lookups import GreaterThan

from accounts.infra.texts import translatable
from accounts.models import ApiToken, Mailbox
from approvals.core.states import Status
from approvals.models import ApprovalPolicy, Attempt, Pause, PendingAction, Rest
from approvals.rules.quorum import number_that_counts

A_DAY = timedelta(days=1)
REACHABLE = (Mailbox.Status.ACTIVE, Mailbox.Status.ERROR)
# A lookup needs the provider. It is allowed in a paused mailbox, but not in one that must be
# reconnected.
MAY_LOOK = (*REACHABLE, Mailbox.Status.PAUSED)


def may_execute() -> Q:
    """Return the condition for a claim.

    The action is approved by enough people who still may approve, is due and not held back, and no
    other mail is leaving this mailbox.
    """
    return Q(status=Status.APPROVED) & due() & Q(expires_at__gt=Now()) & ~must_wait() & ~is_void()


def due() -> Q:
    return Q(not_before=None) | Q(not_before__lte=Now())


def must_wait() -> Q:
    """Return the condition for an action that has to wait.

    The reasons: the kill switch, a mailbox that must be reconnected or cools down, another mail
    that is leaving it, the send window, or the daily limit.
    """
    return (
        Q(Exists(Pause.objects.filter(Q(mailbox=None) | Q(mailbox=OuterRef("mailbox")))))
        | ~Q(mailbox__in=Mailbox.objects.filter(status__in=REACHABLE).values("pk"))
        | Q(mailbox__in=Rest.objects.filter(until__gt=Now()).values("mailbox"))
        | Q(
            Exists(
                PendingAction.objects.filter(mailbox=OuterRef("mailbox"), status=Status.EXECUTING)
            )
        )
        | Q(
            mailbox__in=ApprovalPolicy.objects.filter(outside_window() | day_is_full()).values(
                "mailbox"
            )
        )
    )


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
    return Q(mailbox__in=Mailbox.objects.filter(status=Mailbox.Status.DISCONNECTED).values("pk"))


def is_token_revoked() -> Q:
    """Return the condition for a token that was revoked after the approval.

    If it was revoked before, the approver knew it.
    """
    revoked = ApiToken.objects.filter(
        pk=OuterRef("token_id"), revoked_at__gt=OuterRef("approved_at")
    )
    return Q(token_id__isnull=False) & Q(Exists(revoked))


def are_rules_changed() -> Q:
    """Return the condition for recipient lists that changed since the approval.

    If the new lists still allow the action, its `rules_version` follows them.
    """
    newer = ApprovalPolicy.objects.filter(
        mailbox=OuterRef("mailbox"), version__gt=OuterRef("rules_version")
    )
    return Q(Exists(newer))


def are_approvers_lost() -> Q:
    now_asked = ApprovalPolicy.objects.filter(mailbox=OuterRef("mailbox")).values(
        "approvals_needed"
    )
    return Q(
        GreaterThan(
            Greatest("approvals_needed", Coalesce(Subquery(now_asked), 1)), number_that_counts()
        )
    )


VOID = {
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
            "The rules about recipients changed after the approval, and they no longer allow every recipient."
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
}
