"""The nearest of some names to one that somebody else has written."""

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 64  # characters: comparing takes memory and time for each one


def find_nearest(given: object, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the name that is most like the given one; None if it is unlike all, or too long."""
    if not isinstance(given, str) or len(given) > LONGEST:
        return None
    return next(iter(get_close_matches(given, list(names), n=1, cutoff=cutoff)), None)
