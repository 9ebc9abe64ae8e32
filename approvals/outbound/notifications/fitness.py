"""The last check before a delivery: is it still needed, may the person see it, and is it time?"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from uuid import UUID

from accounts.infra.time_zones import get_zone
from accounts.models import Membership, Role
from approvals.core.states import FINAL, Status
from approvals.gate.rules.approvers import find_approvers
from approvals.models import (
    ApprovalPolicy,
    Notification,
    NotificationSettings,
    PendingAction,
    Presence,
)
from approvals.models.pages import PRESENT
from approvals.outbound.notifications.outbox import ASKING, URGENT, Stage

HERE_WAIT = timedelta(minutes=1)  # a person who is reviewing now sees the queue themselves
BY_A_PERSON = (Stage.MENTIONED, Stage.ASSIGNED)
NEEDED: dict[str, tuple[Status, ...]] = {
    Stage.UNKNOWN: (Status.UNKNOWN,),
    Stage.FAILED: (Status.FAILED, Status.EXPIRED, Status.CANCELLED),
}
DIGEST_AT = time(8)
MONDAY = 1
WEEK = 7


@dataclass(kw_only=True)
class Judged:
    """The rows to send now, the rows to drop with a word for why, and the rows to send later."""

    send: list[Notification] = field(default_factory=list)
    drop: list[tuple[Notification, str]] = field(default_factory=list)
    later: list[tuple[Notification, datetime]] = field(default_factory=list)


def judge(rows: Sequence[Notification], person: NotificationSettings, *, now: datetime) -> Judged:
    """Judge the due rows of one channel by the state of their actions and the person's rights."""
    judged = Judged()
    asking = [row.action for row in rows if row.stage in ASKING and row.action]
    approvers = find_approvers([each for each in asking if each.status == Status.PENDING])
    roles = dict(Membership.objects.filter(user=person.pk).values_list("mailbox", "role"))
    present = set(
        Presence.objects.filter(person=person.pk, seen_at__gt=now - PRESENT).values_list(
            "action", flat=True
        )
    )
    louder = set(
        ApprovalPolicy.objects.filter(mailbox__in=list(roles), notify_urgent=True).values_list(
            "mailbox", flat=True
        )
    )
    opens = next_open(person, now)
    for row in rows:
        code = _refuse(row, roles, now) or _refuse_asking(row, person.pk, approvers, present)
        mailbox = row.action.mailbox_id if row.action else row.mailbox_id
        if code:
            judged.drop.append((row, code))
        elif opens > now and not (row.stage in URGENT and mailbox in louder):
            judged.later.append((row, opens))
        elif present and row.stage in ASKING and row.stage not in URGENT:
            judged.later.append((row, now + HERE_WAIT))
        else:
            judged.send.append(row)
    return judged


def _refuse(row: Notification, roles: dict[UUID, str], now: datetime) -> str:
    """Return why a row is dropped, by the person's membership and the state; empty if it is not."""
    action: PendingAction | None = row.action
    mailbox = action.mailbox_id if action else row.mailbox_id
    # For the other stages, the right to decide is checked in `_refuse_asking`.
    if mailbox is not None and mailbox not in roles and row.stage not in ASKING:
        return "no_right"
    rules = Role.at_least(Role.APPROVER)
    about_a_ruling = row.stage in (Stage.UNKNOWN, Stage.ALSO_SENT)
    if about_a_ruling and (mailbox is None or roles[mailbox] not in rules):
        return "no_right"
    if row.stage == Stage.RECONNECT:
        return (
            ""
            if row.mailbox and row.mailbox.status == row.mailbox.Status.NEEDS_REAUTH
            else "solved"
        )
    if action is None:
        return ""
    if action.expires_at <= now and row.stage in ASKING:
        return "expired"
    if row.stage in BY_A_PERSON:
        over = row.stage == Stage.ASSIGNED and action.status in FINAL
        return "decided" if over or _decided_since(action, row.created_at) else ""
    needed = (Status.PENDING,) if row.stage in ASKING else NEEDED.get(row.stage)
    return "decided" if needed and action.status not in needed else ""


def _decided_since(action: PendingAction, at: datetime) -> bool:
    """Return True if a decision came after this time; a comment may also follow a decision."""
    decided = action.approved_at or action.finished_at
    return action.status != Status.PENDING and decided is not None and decided > at


def _refuse_asking(
    row: Notification, person: int, approvers: dict[UUID, set[int]], present: set[UUID]
) -> str:
    if row.stage not in ASKING or row.action_id is None:
        return ""
    if person not in approvers.get(row.action_id, set()):
        return "no_right"
    return "seen" if row.action_id in present else ""


def next_open(person: NotificationSettings, now: datetime) -> datetime:
    """Return `now` if the person is notified now, else the next moment at which they are."""
    at = now.astimezone(get_zone(person.time_zone))
    # Each step ends a closed day or quiet hours; a week of closed days and nights has 14 of them.
    for _ in range(2 * WEEK + 2):
        after = _after_closed_day(person, at) or _after_quiet(person, at)
        if after is None:
            return max(now, at)
        at = after
    return now  # no day is chosen at all: silence for ever is not a choice


def _after_closed_day(person: NotificationSettings, at: datetime) -> datetime | None:
    if not person.days or str(at.isoweekday()) in person.days:
        return None
    return datetime.combine(at.date() + timedelta(days=1), time.min, at.tzinfo)


def _after_quiet(person: NotificationSettings, at: datetime) -> datetime | None:
    begins, ends = person.quiet_from, person.quiet_until
    if begins is None or ends is None or begins == ends:
        return None
    clock = at.time()
    if begins < ends:
        quiet = begins <= clock < ends
        days = 0
    else:  # over midnight
        quiet = clock >= begins or clock < ends
        days = 1 if clock >= begins else 0
    if not quiet:
        return None
    return datetime.combine(at.date() + timedelta(days=days), ends, at.tzinfo)


def next_digest(person: NotificationSettings, now: datetime) -> datetime | None:
    """Return when the next digest is due; None without one."""
    if person.digest == NotificationSettings.Digest.NONE:
        return None
    zone = get_zone(person.time_zone)
    at = datetime.combine(now.astimezone(zone).date(), DIGEST_AT, zone)
    weekly = person.digest == NotificationSettings.Digest.WEEKLY
    while at <= now or (weekly and at.isoweekday() != MONDAY):
        at = datetime.combine(at.date() + timedelta(days=1), DIGEST_AT, zone)
    return at
