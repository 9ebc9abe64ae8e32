"""The bars for measured coverage (make coverage): what is below one is named."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.measured import SEARCH_FILES, shortfalls

pytestmark = pytest.mark.static
ROOT = Path(__file__).parent.parent


def measured(search: float = 90, lines: int = 60, ran: int = 6) -> dict[str, Any]:
    """Return a report of ten functions, of which some ran."""
    functions = {
        f"f{number}": {"summary": {"num_statements": 1, "covered_lines": int(number < ran)}}
        for number in range(10)
    }
    file = {"summary": {"percent_covered": search}, "functions": {}}
    return {
        "totals": {
            "num_statements": 100,
            "covered_lines": lines,
            "num_branches": 100,
            "covered_branches": 50,
        },
        "files": {**dict.fromkeys(SEARCH_FILES, file), "a.py": {"functions": functions}},
    }


def test_everything_at_its_bar_is_enough() -> None:
    assert list(shortfalls(measured())) == []


def test_each_figure_below_its_bar_is_named() -> None:
    named = list(shortfalls(measured(search=89.9, lines=59, ran=5)))
    assert named[:2] == ["lines, less than 60 %", "functions, less than 60 %"]
    assert [each.partition(",")[0] for each in named[2:]] == list(SEARCH_FILES)


def test_file_without_a_figure_is_below_its_bar() -> None:
    found = measured()
    del found["files"][SEARCH_FILES[0]]
    assert list(shortfalls(found)) == [f"{SEARCH_FILES[0]}, less than 90 %"]


def test_files_that_search_exist() -> None:
    assert [each for each in SEARCH_FILES if not (ROOT / each).is_file()] == []
