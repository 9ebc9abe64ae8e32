"""Regular expressions on foreign text take time in proportion to its length, however the text is
built.
"""

import re
import time
from typing import Any

import pytest

from tests.security.patterns import Recipe, every_pattern, recipes, whole_texts_only

pytestmark = pytest.mark.static
# The first shows an exponential pattern, the last a quadratic one.
SIZES = (
    24,
    36,
    52,
    76,
    110,
    6_000,
)
UNNOTICED = 0.003  # seconds
AT_MOST = 0.150  # seconds for 6,000 characters; linear ones take up to 0.030 on a slow machine
GROWTH = 8.0  # in time, from one size to one four times as large: 4 is linear, 16 is quadratic
PATTERNS = every_pattern()
WHOLE = whole_texts_only()


@pytest.mark.parametrize("where", PATTERNS)
def test_pattern_takes_time_linear_in_its_text(where: str) -> None:
    assert not slow_with(PATTERNS[where], searched=where.rpartition(" ")[2] not in WHOLE)


@pytest.mark.parametrize(
    "unsafe",
    [r"\s*x", r"(?m)^\s*(?:#+\s*)?system", r"(a|aa)+b", r"^(?:\s*re\s*:\s*)+$", r"<[^>]*>"],
)
def test_unsafe_pattern_is_noticed(unsafe: str) -> None:
    assert slow_with(re.compile(unsafe), searched=True)


def slow_with(pattern: "re.Pattern[Any]", *, searched: bool) -> list[Recipe]:
    """Return the first recipe whose text takes too long, or longer than in proportion to its
    length.
    """

    def seconds(recipe: Recipe, size: int) -> float:
        text: Any = recipe.text(size)
        text = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
        started = time.thread_time()
        pattern.fullmatch(text)
        if searched:
            for _ in pattern.finditer(text):
                pass
        return time.thread_time() - started

    def grows(recipe: Recipe, size: int) -> bool:
        """Return True if a text four times as long takes more than in proportion.

        The best of three counts; if it is too slow, of twenty, because other processes make a
        machine slow for moments.
        """
        for times in (3, 20):
            quarter, whole = (
                min(seconds(recipe, each) for _ in range(times)) for each in (size // 4, size)
            )
            if whole <= AT_MOST and whole <= max(UNNOTICED, quarter * GROWTH):
                return False
        return True

    for recipe in recipes(pattern):
        if any(seconds(recipe, size) > UNNOTICED and grows(recipe, size) for size in SIZES):
            return [recipe]
    return []
