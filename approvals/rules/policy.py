"""The rules of a mailbox, judged: who may approve, to whom mail may go, and when it may leave.

A rule only ever holds back or sends back. What is judged here at proposal and approval is judged
again inside the claim's UPDATE (`approvals.rules.conditions`).
"""

from collections.abc import Iterable
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Now

from accounts.infra.compiled_sql import Select, columns_of, instance, slot
from accounts.infra.idn import comparable
from accounts.infra.problems import Problem
from accounts.models import Mailbox, Membership, Role, User
from approvals.models import ApprovalPolicy, Decision, PendingAction

DAYS = "1234567"  # ISO: Monday is 1


_policy = Select(
    lambda: ApprovalPolicy.objects.filter(mailbox=slot(ApprovalPolicy, "mailbox")).values_list(
        *columns_of(ApprovalPolicy)
    )
)


def policy_of(mailbox: Mailbox) -> ApprovalPolicy:
    found = _policy.first(mailbox=mailbox.pk)
    return instance(ApprovalPolicy, found) if found else ApprovalPolicy(mailbox=mailbox)


def lifetime_of(policy: ApprovalPolicy) -> timedelta:
    """How long a proposal waits for a person."""
    return timedelta(hours=policy.action_hours or settings.MAILHUB_ACTION_TTL_HOURS)


def undo_of(policy: ApprovalPolicy) -> timedelta:
    seconds = settings.MAILHUB_UNDO_SECONDS if policy.undo_seconds is None else policy.undo_seconds
    return timedelta(seconds=seconds)


def needed_for(action: PendingAction, policy: ApprovalPolicy) -> int:
    """How many people must say yes: what was asked for at the proposal, or what is asked for now if
    that is more.
    """
    return max(action.approvals_needed, policy.approvals_needed)


def approvers_of(policy: ApprovalPolicy) -> QuerySet[Membership]:
    """The memberships that may approve under these rules."""
    roles = Role.at_least(Role(policy.approver_role))
    return Membership.objects.filter(
        mailbox=policy.mailbox_id, role__in=roles, user__is_active=True
    )


def may_approve_at_all(person: User, policy: ApprovalPolicy) -> bool:
    return approvers_of(policy).filter(user=person).exists()


def asks_for_staff(action: PendingAction) -> bool:
    """Return True if only staff may approve an action of this kind."""
    return action.kind in settings.MAILHUB_STAFF_KINDS


def own_counts(action: PendingAction, policy: ApprovalPolicy) -> bool:
    """Whether the approval of who proposed or edited it counts: only where one is enough and the
    mailbox allows it.
    """
    return policy.self_approval and needed_for(action, policy) == 1


def counted(action: PendingAction, policy: ApprovalPolicy) -> QuerySet[Decision]:
    """The approvals that count: for this revision, digest and round, by people who may still
    approve and have been members without a break since then.
    """
    said = action.decisions.filter(
        verdict=Decision.Verdict.APPROVED,
        revision=action.revision,
        digest=action.digest,
        approval_round=action.approval_round,
        person__memberships__in=approvers_of(policy),
        created_at__gte=F("person__memberships__created_at"),
    )
    if asks_for_staff(action):
        said = said.filter(person__is_staff=True)
    if own_counts(action, policy):
        return said
    wrote = action.revisions.filter(author=OuterRef("person"))
    return said.exclude(person=action.proposer).exclude(Exists(wrote))


# --- To whom
# ---------------------------------------------------------------------------------------------------------


def judge(mailbox: Mailbox, addresses: Iterable[str]) -> None:
    """Raises Problem `policy_blocked` when the rules of the mailbox do not let mail go to all of
    these.
    """
    refusal = blocked(policy_of(mailbox), addresses)
    if refusal:
        raise refusal


def blocked(policy: ApprovalPolicy, addresses: Iterable[str]) -> Problem | None:
    """The refusal that names whom the lists do not allow; None when they allow all."""
    named = blocked_by(policy, addresses)
    if not named:
        return None
    shown = ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
    return Problem("policy_blocked", f"The rules of this mailbox do not let mail go to {shown}.")


def blocked_by(policy: ApprovalPolicy, addresses: Iterable[str]) -> list[str]:
    """The addresses that the lists refuse: one that is refused, or not among those allowed where
    there are such.
    """
    return sorted(
        {
            address
            for address in addresses
            if _listed(address, policy.refused)
            or (policy.allowed and not _listed(address, policy.allowed))
        }
    )


def _listed(address: str, entries: Iterable[str]) -> bool:
    """An entry is an address, or a domain that stands for itself and everything below it."""
    address = comparable(address)
    domain = address.rpartition("@")[2]
    return any(
        address == entry if "@" in entry else domain == entry or domain.endswith(f".{entry}")
        for entry in entries
    )


# --- When
# ------------------------------------------------------------------------------------------------------------


def window_of(policy: ApprovalPolicy, now: datetime) -> tuple[datetime, datetime] | None:
    """The present send window, or the next; None where mail may leave at any time."""
    if not policy.open_days and policy.open_from is None:
        return None
    zone = ZoneInfo(policy.time_zone)
    days = policy.open_days or DAYS
    today = now.astimezone(zone).date()
    for ahead in range(len(DAYS) + 2):
        day = today + timedelta(days=ahead)
        if str(day.isoweekday()) not in days:
            continue
        opens = datetime.combine(day, policy.open_from or time.min, zone)
        if policy.open_until is None:
            closes = datetime.combine(day + timedelta(days=1), time.min, zone)
        else:
            closes = datetime.combine(day, policy.open_until, zone)
        if closes > now:
            return opens, closes
    raise AssertionError("a week has every day")


def closed() -> QuerySet[ApprovalPolicy]:
    """The rules whose send window is over."""
    return ApprovalPolicy.objects.filter(closes_at__lte=Now())


def turn_windows() -> None:
    """Set the next send window where the last has closed; until then nothing leaves."""
    for policy in closed().annotate(at=Now()):
        window = window_of(policy, policy.at)
        if window:
            ApprovalPolicy.objects.filter(pk=policy.pk, closes_at=policy.closes_at).update(
                opens_at=window[0], closes_at=window[1]
            )
