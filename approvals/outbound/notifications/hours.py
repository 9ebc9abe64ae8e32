"""The hours at which a person is notified: pure functions of their settings and a moment."""

from datetime import datetime, time, timedelta

from accounts.infra.time_zones import get_zone
from approvals.models import NotificationSettings

DIGEST_AT = time(8)
MONDAY = 1
WEEK = 7


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
