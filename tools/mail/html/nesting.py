"""The depth of clean HTML. Pure, linear."""

import re
from collections import Counter

MAX_DEPTH = 256  # libxml2 silently drops deeper elements
TAG = re.compile(r"<(/?+)([a-z][a-z0-9]*+)", re.IGNORECASE)
# They do not nest: they are empty, or the next one closes them.
FLAT = frozenset(
    "area base br col dd dt embed hr img input li link meta option p param source td th tr wbr".split()
)


class TooDeep(ValueError):
    """The HTML is nested deeper than any mail program writes it."""


class TooLarge(ValueError):
    """The HTML has more elements than can be read in a second."""


def check_depth(html: str) -> None:
    """Raise TooDeep if the HTML is too deep. An unclosed element counts as open, as in a parser."""
    depth = 0
    opened: Counter[str] = Counter()
    for match in TAG.finditer(html):
        name = match[2].lower()
        if name in FLAT or (match[1] and not opened[name]):
            continue
        step = -1 if match[1] else 1
        opened[name] += step
        depth += step
        if depth > MAX_DEPTH:
            raise TooDeep
