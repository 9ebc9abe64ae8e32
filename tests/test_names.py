"""The names of tests are short, and numbers of lists are markers instead of prefixes."""

import re
from functools import cache
from pathlib import Path
from statistics import median

import pytest

pytestmark = pytest.mark.static
TESTS = Path(__file__).parent
LONGEST, MEDIAN = 60, 45
NAME = re.compile(r"(?m)^ *(?:async )?def (test_\w+)")
NUMBERED = re.compile(r"test_(row|p)\d+_")


@cache
def names() -> list[str]:
    """Return the name of each test function, also those of benchmarks and of classes."""
    return [name for path in sorted(TESTS.rglob("*.py")) for name in NAME.findall(path.read_text())]


def test_no_name_is_too_long() -> None:
    assert len(names()) > 1_000
    assert [name for name in names() if len(name) > LONGEST] == []


def test_median_name_is_short() -> None:
    assert median(map(len, names())) <= MEDIAN


def test_no_name_begins_with_a_row_number() -> None:
    assert [name for name in names() if NUMBERED.match(name)] == []
