"""The page of performance names every goal, so that none is dropped."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.static
PAGE = Path(__file__).parents[1] / "docs" / "dev" / "performance.md"


def test_page_of_performance_names_each_goal_once() -> None:
    named = re.findall(r"^\| (N\d+) \|", PAGE.read_text(), re.M)

    assert named == [f"N{number}" for number in (2, 5, 6, 7, 8, 9, 11)]


def test_page_of_performance_keeps_the_goals_of_reading() -> None:
    named = set(re.findall(r"^\| (P\d+) \|", PAGE.read_text(), re.M))

    assert named == {f"P{number}" for number in (1, 2, 3, 4, 5, 6, 9, 10)}
