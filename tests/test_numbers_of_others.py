"""Python's `int` raises for more than 4,300 digits, so one function reads the numbers of others."""

import ast
from pathlib import Path

import pytest

from accounts.infra.foreign_text import parse_number

pytestmark = pytest.mark.static
ROOT = Path(__file__).parents[1]
PACKAGES = ("accounts", "approvals", "tools", "mailhub")
DIGITS = {"isdecimal", "isdigit", "isnumeric"}


def converts_after_a_test_of_digits(function: ast.AST) -> bool:
    names = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    calls = {
        node.func.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return bool(names & DIGITS) and "int" in calls


def test_one_function_reads_numbers_of_others() -> None:
    found = {
        node.name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and converts_after_a_test_of_digits(node)
    }
    assert found == {parse_number.__name__}


@pytest.mark.parametrize("text", ["", "²", "٣", "+1", "1_0", " 1", "9" * 19, "9" * 5000])
def test_odd_number_is_none(text: str) -> None:
    assert parse_number(text) is None


def test_number_has_at_most_the_digits_that_are_asked_for() -> None:
    assert (parse_number("0099"), parse_number("100", digits=2)) == (99, None)
