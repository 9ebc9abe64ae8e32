"""Each fault and each performance goal of docs/dev/faults.md has a test that carries its number as
a marker.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

pytestmark = pytest.mark.static
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "dev" / "faults.md"
GOALS = "P1 P2 P3 P5 P6 P9 P10 N2 N6 N7 N8 N9 N11".split()
NUMBERS = [*(str(number) for number in range(1, 61)), *GOALS]
ROW = re.compile(r"^\| ([PN]?\d+) \| [^|]+ \| [^|]+ \| ([^|]+) \|$", re.M)


def named() -> dict[str, set[str]]:
    """Return the tests that the page names, by the number of their row."""
    return {
        number: set(re.findall(r"`(test_\w+)`", tests))
        for number, tests in ROW.findall(PAGE.read_text())
    }


def marked() -> dict[str, set[str]]:
    """Return the test functions that carry a marker `fault` or `goal`, by each number in it."""
    found = defaultdict(set)
    for path in (ROOT / "tests").rglob("*.py"):
        source = path.read_text()
        if "mark.fault(" not in source and "mark.goal(" not in source:
            continue
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                for number in _numbers(function):
                    found[number].add(function.name)
    return found


def _numbers(function: ast.FunctionDef) -> set[str]:
    return {
        str(ast.literal_eval(argument))
        for decorator in function.decorator_list
        for call in ast.walk(decorator)  # the marks of one parameter count too
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("fault", "goal")
        for argument in call.args
    }


def test_page_has_each_row_once() -> None:
    assert [number for number, _ in ROW.findall(PAGE.read_text())] == NUMBERS


def test_every_row_has_a_test() -> None:
    assert set(marked()) == set(NUMBERS)


def test_tests_named_on_the_page_carry_its_number() -> None:
    carried = marked()
    assert all(named().values())
    assert {
        number: wrong for number, tests in named().items() if (wrong := tests - carried[number])
    } == {}
