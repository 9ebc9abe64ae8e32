"""When to try again and when to look again: pure functions of what happened."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from approvals.core.states import Status
from approvals.core.types import Outcome

FIRST_RETRY_SECONDS = 4  # with the worker's own delay, the first try again begins within 5 s
LONGEST_RETRY_SECONDS = 15 * 60
LONGEST_RETRY_AFTER_SECONDS = 60 * 60
PROBES = (15, 60, 5 * 60, 15 * 60, 60 * 60)  # seconds since the answer was lost
SHORTEST_PROBE_SECONDS = 15
# What int() would take too: signs, underscores, other scripts' digits.
_SECONDS = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")


@dataclass(frozen=True, kw_only=True)
class Next:
    """Where an outcome leads: `wait` until the next try or the next look, `rest` for the whole
    mailbox.
    """

    status: Status
    wait: timedelta | None = None
    rest: timedelta | None = None


def after(outcome: Outcome, *, tries: int) -> Next:
    """What follows from the outcome of the last of `tries` tries.

    Only what certainly sent nothing is tried again. A Retry-After on anything else means nothing: a
    202 may carry one.
    """
    match outcome.verdict:
        case "accepted":
            return Next(status=Status.SUCCEEDED)
        case "refused":
            return Next(status=Status.FAILED)
        case "unknown":
            return Next(status=Status.UNKNOWN, wait=timedelta(seconds=PROBES[0]))
        case "not_sent":
            wait = next_try(tries, retry_after=outcome.retry_after)
            pauses = outcome.pauses_mailbox or outcome.retry_after is not None
            return Next(status=Status.APPROVED, wait=wait, rest=wait if pauses else None)


def next_try(tries: int, *, retry_after: int | None = None) -> timedelta:
    """How long to wait after `tries` tries that certainly sent nothing: 4 s doubling to 15 min.

    The other side's `retry_after`, in seconds, counts when it is longer, capped at an hour.
    """
    own = min(FIRST_RETRY_SECONDS * 2 ** min(max(tries, 1) - 1, 16), LONGEST_RETRY_SECONDS)
    asked = min(max(retry_after or 0, 0), LONGEST_RETRY_AFTER_SECONDS)
    return timedelta(seconds=max(own, asked))


def parse_retry_after(value: str | None, *, now: datetime) -> int | None:
    """The seconds that a Retry-After header asks for, 0 to an hour; None when it is not readable.

    Seconds or an HTTP date (RFC 9110, 10.2.3); fractions, which some servers send, are rounded up.
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


def next_probe(
    probes_made: int, *, since_lost: timedelta, failed: bool = False
) -> timedelta | None:
    """How long until the next look after `probes_made` looks, at least one, `since_lost` after the
    answer was lost.

    None when looking is over and a person has to rule. A look that failed has seen nothing, so it
    never is the last.
    """
    if probes_made < len(PROBES):
        due = timedelta(seconds=PROBES[probes_made]) - since_lost
        return max(due, timedelta(seconds=SHORTEST_PROBE_SECONDS))
    return timedelta(seconds=PROBES[-1]) if failed else None
