"""When to try again and when to look again: pure functions of what happened."""

from datetime import timedelta

FIRST_RETRY_SECONDS = 5
LONGEST_RETRY_SECONDS = 15 * 60
LONGEST_RETRY_AFTER_SECONDS = 60 * 60
PROBES = (15, 60, 5 * 60, 15 * 60, 60 * 60)  # seconds since the answer was lost


def next_try(tries: int, *, retry_after: int | None = None) -> timedelta:
    """How long to wait after `tries` tries that certainly sent nothing: 5 s doubling to 15 min.

    The other side's `retry_after`, in seconds, counts when it is longer, capped at an hour.
    """
    own = min(FIRST_RETRY_SECONDS * 2 ** min(tries - 1, 16), LONGEST_RETRY_SECONDS)
    asked = min(max(retry_after or 0, 0), LONGEST_RETRY_AFTER_SECONDS)
    return timedelta(seconds=max(own, asked))


def first_probe() -> timedelta:
    return timedelta(seconds=PROBES[0])


def next_probe(probes_made: int) -> timedelta | None:
    """How long until the next look after `probes_made` looks, at least one; None when a person has to rule."""
    if probes_made >= len(PROBES):
        return None
    return timedelta(seconds=PROBES[probes_made] - PROBES[probes_made - 1])
