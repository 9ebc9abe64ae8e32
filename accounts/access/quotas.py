"""Counters that all processes share: how often a subject may do something, and how much is left.

Any module may limit something with it:

    invitations = Quota(
        name="invitations",
        amount=20,
        seconds=3600,
        refusal=translatable("You have sent too many invitations."),
    )
    take(invitations, f"user:{person.pk}")  # raises Problem `rate_limited` with the seconds to wait

The count is a row in the database, so web processes, workers and commands on one database share it.
Call `take` outside of a transaction. Inside, the row stays locked until the end, and a rollback
takes the count back.
"""

import math
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.models import QuotaUse

KEPT_SLICES = 10_000
FORGOTTEN_AT_ONCE = 10_000


@dataclass(frozen=True, kw_only=True)
class Quota:
    """At most `amount` of something within `seconds`, counted from the first use.

    `name` is part of the key and of the RateLimit headers (lower-case letters and hyphens).
    `refusal` is a sentence for the caller. `unit` is a quota unit of the RateLimit draft; without
    it, requests are counted. A process takes 1 / `slices` of it at a time for frequent events.
    """

    name: str
    amount: int
    seconds: int
    refusal: str
    unit: str = ""
    slices: int = 100


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The rest of a quota, and the seconds until the full amount is available again.

    `granted` is False if the count was refused.
    """

    quota: Quota
    remaining: int
    reset: int
    granted: bool = True


def take(quota: Quota, subject: str, amount: int = 1) -> Usage:
    """Count `amount` for a subject; return the usage or raise Problem `rate_limited`."""
    usage = count(quota, subject, amount)
    if not usage.granted:
        raise refusal_of(usage)
    return usage


def refusal_of(usage: Usage) -> Problem:
    """Return the problem that tells a caller to wait."""
    return Problem(
        "rate_limited",
        usage.quota.refusal,
        retry_after=max(1, usage.reset),
        headers=headers_of([usage]),
    )


# A row's window is over, or the amount fits; otherwise no row comes back. One statement counts, so
# two processes never share the last unit.
_COUNT = """
INSERT INTO accounts_quotause AS kept (key, used, ends_at) VALUES (%(key)s, %(amount)s, %(end)s)
ON CONFLICT (key) DO UPDATE SET
    used = CASE WHEN kept.ends_at <= %(now)s THEN %(amount)s ELSE kept.used + %(amount)s END,
    ends_at = CASE WHEN kept.ends_at <= %(now)s THEN %(end)s ELSE kept.ends_at END
WHERE kept.ends_at <= %(now)s OR kept.used <= %(room)s
RETURNING id, key, used, ends_at
"""


def count(quota: Quota, subject: str, amount: int = 1) -> Usage:
    """Count `amount` for a subject if it fits, and return the usage."""
    key = f"{quota.name}:{subject}"
    now = timezone.now()
    ends_at = now + timedelta(seconds=quota.seconds)
    if amount > quota.amount:  # it never fits; a new window must not let it through
        return Usage(quota=quota, remaining=quota.amount, reset=quota.seconds, granted=False)
    given = {"key": key, "amount": amount, "room": quota.amount - amount}
    moments = {
        name: connection.ops.adapt_datetimefield_value(value)
        for name, value in (("now", now), ("end", ends_at))
    }
    for counted in QuotaUse.objects.raw(_COUNT, {**given, **moments}):
        reset = _seconds(counted.ends_at - now)
        return Usage(quota=quota, remaining=quota.amount - counted.used, reset=reset)
    row = QuotaUse.objects.filter(key=key).first()
    used, ends_at = (row.used, row.ends_at) if row else (quota.amount, now)
    return Usage(
        quota=quota,
        remaining=max(0, quota.amount - used),
        reset=max(1, _seconds(ends_at - now)),
        granted=False,
    )


def _seconds(span: timedelta) -> int:
    return math.ceil(span.total_seconds())


# --- For frequent events
# ------------------------------------------------------------------------------------------


@dataclass
class _Slice:
    """The part of a quota that this process has taken and not used yet.

    `shared` is what was left for all processes at that moment.
    """

    left: int
    shared: int
    until: float  # on the monotonic clock
    refused: bool = False


_slices: dict[str, _Slice] = {}
_lock = threading.Lock()


def count_often(quota: Quota, subject: str, amount: int = 1) -> Usage:
    """Count `amount`, from a slice of the quota that this process has taken before.

    All processes together never grant more than the quota, because a slice is counted before it is
    used. The unused rest of a slice is lost for the window: at most one slice for each process. A
    slice costs one statement, so one event costs a small part of a statement.
    """
    key = f"{quota.name}:{subject}"
    usage = _from_slice(quota, key, amount)
    if usage is not None:
        return usage
    size = max(amount, quota.amount // quota.slices)
    taken = count(quota, subject, size)
    if not taken.granted and size > amount:
        size, taken = amount, count(quota, subject, amount)  # the last ones, one by one
    with _lock:
        if len(_slices) >= KEPT_SLICES:
            _drop_old()
        kept = _slices.get(key)
        fresh = kept is not None and not kept.refused and kept.until > time.monotonic()
        rest = size - amount if taken.granted else 0
        left = (kept.left if kept is not None and fresh else 0) + rest
        _slices[key] = _Slice(
            left=left,
            shared=taken.remaining,
            until=time.monotonic() + taken.reset,
            # A smaller amount may still fit.
            refused=not taken.granted and amount == 1,
        )
    return Usage(
        quota=quota, remaining=taken.remaining + left, reset=taken.reset, granted=taken.granted
    )


def _from_slice(quota: Quota, key: str, amount: int) -> Usage | None:
    now = time.monotonic()
    with _lock:
        kept = _slices.get(key)
        if kept is None or kept.until <= now or (kept.left < amount and not kept.refused):
            return None
        reset = math.ceil(kept.until - now)
        if kept.refused:
            return Usage(quota=quota, remaining=0, reset=reset, granted=False)
        kept.left -= amount
        return Usage(quota=quota, remaining=kept.left + kept.shared, reset=reset)


def _drop_old() -> None:
    now = time.monotonic()
    for key in [key for key, kept in _slices.items() if kept.until <= now]:
        del _slices[key]


def forget_old() -> None:
    """Delete counts whose window has ended. The sweeper calls it."""
    old = QuotaUse.objects.filter(ends_at__lt=timezone.now() - timedelta(days=1))
    QuotaUse.objects.filter(
        pk__in=list(old.values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])
    ).delete()


# --- Headers
# ------------------------------------------------------------------------------------------


def headers_of(usages: Iterable[Usage]) -> dict[str, str]:
    """Return `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10)."""
    shown = list(usages)
    if not shown:
        return {}
    return {
        "RateLimit-Policy": ", ".join(_policy(usage.quota) for usage in shown),
        "RateLimit": ", ".join(
            f'"{usage.quota.name}";r={usage.remaining};t={usage.reset}' for usage in shown
        ),
    }


def _policy(quota: Quota) -> str:
    unit = f';qu="{quota.unit}"' if quota.unit else ""
    return f'"{quota.name}";q={quota.amount}{unit};w={quota.seconds}'
