"""Waits before a retry or a lookup: pure functions of the outcome."""

import math
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

FIRST_RETRY_SECONDS = 4  # with the worker's own delay, the first retry begins within 5 s
LONGEST_RETRY_SECONDS = 15 * 60
LONGEST_RETRY_AFTER_SECONDS = 60 * 60
PROBES = (15, 60, 5 * 60, 15 * 60, 60 * 60)  # seconds since the answer was lost
SHORTEST_PROBE_SECONDS = 15
# int() would also accept signs, underscores and digits of other scripts.
_SECONDS = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")


def retry_wait(tries: int, *, retry_after: int | None = None) -> timedelta:
    """Return the wait after `tries` attempts that certainly sent nothing: 4 s doubling to 15 min.

    The provider's `retry_after`, in seconds, counts if it is longer, capped at an hour.
    """
    own = min(FIRST_RETRY_SECONDS * 2 ** min(max(tries, 1) - 1, 16), LONGEST_RETRY_SECONDS)
    asked = min(max(retry_after or 0, 0), LONGEST_RETRY_AFTER_SECONDS)
    return timedelta(seconds=max(own, asked))


def parse_retry_after(value: str | None, *, now: datetime) -> int | None:
    """Return the seconds that a Retry-After header asks for, 0 to an hour; None if not readable.

    It accepts seconds or an HTTP date (RFC 9110, 10.2.3). Fractions, which some servers send, are
    rounded up.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        seconds = float(text)
    else:
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        seconds = (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()
    return math.ceil(min(max(seconds, 0), LONGEST_RETRY_AFTER_SECONDS))


def lookup_wait(
    probes_made: int, *, since_lost: timedelta, failed: bool = False
) -> timedelta | None:
    """Return the wait before the next lookup after `probes_made` lookups, at least one.

    `since_lost` is the time since the answer was lost. Return None if the lookups are over and a
    person has to rule. A failed lookup has seen nothing, so it is never the last.
    """
    if probes_made < len(PROBES):
        due = timedelta(seconds=PROBES[probes_made]) - since_lost
        return max(due, timedelta(seconds=SHORTEST_PROBE_SECONDS))
    return timedelta(seconds=PROBES[-1]) if failed else None
