"""Judgement by the rules of a mailbox: who may approve, to whom mail may go, when it may leave.

A rule only holds back or sends back. The rules judged here at proposal and approval are judged
again inside the claim's UPDATE (`approvals.gate.rules.conditions`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Greatest, Now

from accounts.access.roles import has_role
from accounts.infra.database import database_now
from accounts.infra.idn import comparable
from accounts.infra.problems import Problem
from accounts.infra.texts import join, ntranslatable, translatable
from accounts.models import Mailbox, Membership, Role, User
from accounts.people.second_factor import FactorMissing, lacks_factor
from approvals.core.states import Status
from approvals.gate.pauses import switch
from approvals.gate.rules.conditions import REACHABLE, day_is_full, find_counted
from approvals.gate.seen import find_unopened
from approvals.models import ApprovalPolicy, PendingAction, Rest

DAYS = "1234567"  # ISO: Monday is 1
ROOM = timedelta(minutes=10)  # for an approved mail to leave, after its undo window
SOON = timedelta(seconds=15)  # within this time a page says that it is about to leave
PAUSED = translatable(
    "This mailbox is paused. mailhub continues when the pause ends, if the approval is still valid then."
)
RECONNECT = translatable("The mailbox must be reconnected first.")
DAY_IS_FULL = translatable("The daily limit of this mailbox is reached.")
CLOSED = translatable("Nothing leaves this mailbox outside of its hours.")
PROPOSED_IT = translatable(
    "You proposed this, so you cannot approve it. This mailbox asks for another person."
)
WROTE_IT = translatable(
    "You wrote a part of this or asked for its changes, so you cannot approve it. "
    "This mailbox asks for another person."
)
RESTORED = translatable(
    "It came back with an older copy of the database, and may have been sent since. Wait until"
    " `manage.py after_restore` has looked."
)
UNOPENED = translatable("Open each of its files first. This mailbox asks for that.")


def policy_of(mailbox: Mailbox) -> ApprovalPolicy:
    """Return the rules of a mailbox; the usual ones if it has none of its own."""
    found = ApprovalPolicy.objects.filter(mailbox=mailbox).first()
    return found or ApprovalPolicy(mailbox=mailbox)


def leave_from(
    policy: ApprovalPolicy, *, now: datetime, send_at: datetime | None
) -> dict[str, datetime | None]:
    """Return when an action that waits for a person from now on may leave, and when it expires.

    The time before `send_at` does not count towards the expiry.
    """
    waits = timedelta(hours=policy.action_hours or settings.MAILHUB_ACTION_TTL_HOURS)
    return {"send_at": send_at, "expires_at": max(now, send_at or now) + waits}


def undo_of(policy: ApprovalPolicy) -> timedelta:
    seconds = settings.MAILHUB_UNDO_SECONDS if policy.undo_seconds is None else policy.undo_seconds
    return timedelta(seconds=seconds)


def leave_times(action: PendingAction, policy: ApprovalPolicy) -> dict[str, Any]:
    """Return the times between which an approved action may leave, by the database's clock.

    The claim compares them with the same clock. Neither the undo window nor the time until the send
    window opens counts towards the expiry.
    """
    undo_until, minutes = Now() + undo_of(policy), policy.approval_minutes
    leaves = undo_until if action.send_at is None else Greatest(undo_until, Value(action.send_at))
    times: dict[str, Any] = {
        "expires_at": Greatest(F("expires_at"), undo_until + ROOM),
        "undo_until": undo_until,
        "not_before": leaves,
        "approved_until": None if minutes is None else leaves + timedelta(minutes=minutes),
    }
    if expires_at := expiry_by_window(action, policy):
        times["expires_at"] = expires_at
    return times


def expiry_by_window(action: PendingAction, policy: ApprovalPolicy) -> datetime | None:
    """Return when an approved action expires that has to wait for the send window; None if it has not."""
    opens = find_opening(action, policy)
    if opens is None:
        return None
    renewed = leave_from(policy, now=opens, send_at=action.send_at)["expires_at"]
    return max(action.expires_at, renewed or opens)


def keep_until_it_opens(policy: ApprovalPolicy, *, missed: datetime | None = None) -> None:
    """Let none of the approved actions expire before the send window opens, as an approval does.

    With `missed`, the opening of a window that is over, only those that were to leave in it.
    """
    approved = PendingAction.objects.filter(
        mailbox=policy.mailbox_id, status=Status.APPROVED, expires_at__gt=Now()
    )
    for action in approved.order_by("pk"):
        if missed is not None and _first_opening(action, policy) != missed:
            continue
        if expires_at := expiry_by_window(action, policy):
            approved.filter(pk=action.pk).update(expires_at=expires_at)


def _first_opening(action: PendingAction, policy: ApprovalPolicy) -> datetime | None:
    """Return when the window opens, or opened, that an approved action was to leave in first.

    `not_before` does not say: another attempt moves it.
    """
    times = (action.approved_at or action.created_at, action.undo_until, action.send_at)
    window = window_of(policy, max(at for at in times if at is not None))
    # In UTC: of two zones, Python calls no times equal that the change to summer time skips.
    return window[0].astimezone(UTC) if window else None


# --- Approvers ---


def count_needed(action: PendingAction, policy: ApprovalPolicy) -> int:
    """Return how many people must approve: the number at the proposal, or today's if higher."""
    return max(action.approvals_needed, policy.approvals_needed)


def approvers_of(policy: ApprovalPolicy) -> QuerySet[Membership]:
    """Return the memberships that may approve under these rules."""
    roles = Role.at_least(Role(policy.approver_role))
    return Membership.objects.filter(
        mailbox=policy.mailbox_id, role__in=roles, user__is_active=True
    )


def asks_for_staff(action: PendingAction) -> bool:
    """Return True if only staff may approve an action of this kind."""
    return action.kind in settings.MAILHUB_STAFF_KINDS


def own_counts(action: PendingAction, policy: ApprovalPolicy) -> bool:
    """Return True if the approval of the proposer or an editor counts.

    It counts only if one approval is enough and the mailbox allows it.
    """
    return policy.self_approval and count_needed(action, policy) == 1


DECIDES = Role.APPROVER  # the least role that may decide


def may_decide(person: User, mailbox: Mailbox) -> bool:
    """Return True if this person may reject, edit, ask back or undo; `check_approver` is for the
    right to approve.
    """
    return has_role(person, mailbox, DECIDES)


def refusal_to_decide(person: User, mailbox: Mailbox) -> Problem | None:
    """Return `forbidden` for a person who may not decide, or None."""
    if may_decide(person, mailbox):
        return None
    return Problem("forbidden", "You may not decide for this mailbox.")


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
    if not approvers_of(policy).filter(user=person).exists():
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


def refusal_of_unfit(action: PendingAction, policy: ApprovalPolicy) -> Problem | None:
    """Return why nobody can approve the action any more, or not now; None if somebody can."""
    if action.expires_at <= database_now():
        return Problem("conflict", "It has expired. Ask for a new proposal.")
    if action.unreconciled:
        return Problem("conflict", RESTORED)
    if action.mailbox.status == Mailbox.Status.DISCONNECTED:
        return Problem("conflict", "The mailbox is disconnected. Connect it again first.")
    return refusal_by_lists(policy, [each["address"] for each in action.current.preview["targets"]])


def refusal_of_unopened(
    action: PendingAction, policy: ApprovalPolicy, person: User
) -> Problem | None:
    """Return `conflict` if a rule asks this person to open the files first, and one is not opened."""
    if not policy.files_opened:
        return None
    return Problem("conflict", UNOPENED) if find_unopened(action, person) else None


# --- Recipients ---


def judge(mailbox: Mailbox, addresses: Iterable[str]) -> None:
    """Raise Problem `policy_blocked` if the rules of the mailbox refuse one of these addresses."""
    refusal = refusal_by_lists(policy_of(mailbox), addresses)
    if refusal:
        raise refusal


def refusal_by_lists(policy: ApprovalPolicy, addresses: Iterable[str]) -> Problem | None:
    """Return the refusal that names the refused addresses; None if the lists allow all."""
    named = find_blocked(policy, addresses)
    if not named:
        return None
    refusal = translatable(
        "The rules of this mailbox do not let mail go to %(addresses)s.",
        addresses=", ".join(named[:3]),
    )
    more = len(named) - 3
    and_more = ntranslatable("And %(count)s more.", "And %(count)s more.", more)
    return Problem("policy_blocked", join(refusal, and_more if more > 0 else ""))


def find_blocked(policy: ApprovalPolicy, addresses: Iterable[str]) -> list[str]:
    """Return the addresses that the lists refuse.

    They are on the refused list, or missing on an allowed list that is not empty.
    """
    return sorted(
        {
            address
            for address in addresses
            if _is_listed(address, policy.refused)
            or (policy.allowed and not _is_listed(address, policy.allowed))
        }
    )


def _is_listed(address: str, entries: Iterable[str]) -> bool:
    """Return True if an entry is this address, its domain, or a parent of its domain."""
    address = comparable(address)
    domain = address.rpartition("@")[2]
    return any(
        address == entry if "@" in entry else domain == entry or domain.endswith(f".{entry}")
        for entry in entries
    )


# --- Send windows ---


def window_of(policy: ApprovalPolicy, now: datetime) -> tuple[datetime, datetime] | None:
    """Return the present send window, or the next; None if mail may leave at any time.

    In the night in which the clocks go forward, a short window does not exist.
    """
    if not policy.open_days and policy.open_from is None:
        return None
    zone = ZoneInfo(policy.time_zone)
    days = policy.open_days or DAYS
    today = now.astimezone(zone).date()
    for ahead in range(2 * len(DAYS) + 2):
        day = today + timedelta(days=ahead)
        if str(day.isoweekday()) not in days:
            continue
        opens = datetime.combine(day, policy.open_from or time.min, zone)
        if policy.open_until is None:
            closes = datetime.combine(day + timedelta(days=1), time.min, zone)
        else:
            closes = datetime.combine(day, policy.open_until, zone)
        if closes > max(now, opens.astimezone(UTC)):
            return opens, closes
    raise AssertionError("two weeks have every day twice")


def find_opening(action: PendingAction, policy: ApprovalPolicy) -> datetime | None:
    """Return when the send window opens for an action that is approved, or would be approved now;
    None if it is open when the action may leave.
    """
    if policy.opens_at is None:
        return None
    now = database_now()
    leaves = max(now, action.not_before or max(now + undo_of(policy), action.send_at or now))
    opens, _ = window_of(policy, leaves) or (leaves, None)
    return opens if opens > leaves else None


@dataclass(frozen=True, kw_only=True)
class Hold:
    """The reason that holds an action back, the time until which it does, or both.

    `closed` says that it is the send window. `ends` is True if the approval ends before that time.
    """

    reason: str = ""
    until: datetime | None = None
    closed: str = ""
    ends: bool = False


def find_hold(action: PendingAction, policy: ApprovalPolicy) -> Hold | None:
    """Return what holds an action back that is approved, or would be approved now; None if a worker
    may take it.
    """
    if switch.is_paused(action.mailbox):
        return Hold(reason=PAUSED)
    if action.mailbox.status not in REACHABLE:
        return Hold(reason=RECONNECT)
    mine = ApprovalPolicy.objects.filter(day_is_full(), pk=policy.pk)
    reason = DAY_IS_FULL if policy.daily_cap is not None and mine.exists() else ""
    rest = Rest.objects.filter(mailbox=action.mailbox_id).values_list("until", flat=True).first()
    opening = find_opening(action, policy)
    times = [action.not_before or action.send_at, opening, rest]
    until = max((at for at in times if at is not None), default=None)
    if until is None or until <= (now := database_now()) + SOON:
        return Hold(reason=reason) if reason else None
    approved_until = action.approved_until
    if action.not_before is None and policy.approval_minutes is not None:
        leaves = max(now + undo_of(policy), action.send_at or now)
        approved_until = leaves + timedelta(minutes=policy.approval_minutes)
    ends = approved_until is not None and approved_until <= until
    return Hold(reason=reason, until=until, closed=CLOSED if until == opening else "", ends=ends)


def find_closed() -> QuerySet[ApprovalPolicy]:
    """Return the rules whose send window is over, or was set by a clock that was ahead."""
    return ApprovalPolicy.objects.filter(Q(closes_at__lte=Now()) | Q(window_set_at__gt=Now()))


def advance_windows() -> None:
    """Set the present or next send window of these rules; until then nothing leaves."""
    for policy in find_closed().annotate(at=Now()):
        window = window_of(policy, policy.at)
        if window:
            # Mail that missed the window that is over waits for the next one, but only once: mail
            # that is held back for longer expires.
            keep_until_it_opens(policy, missed=policy.opens_at)
            ApprovalPolicy.objects.filter(pk=policy.pk, closes_at=policy.closes_at).update(
                opens_at=window[0], closes_at=window[1], window_set_at=policy.at
            )
