"""The table of docs/seed-coverage.md names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.static
ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:\[([^\]`]+)\])?`")


@cache
def functions(path: str) -> dict[str, str]:
    """The functions of a test file with the decorators over them, as source."""
    source = (ROOT / path).read_text()
    return {
        node.name: "\n".join(ast.get_source_segment(source, each) or "" for each in node.decorator_list)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    }


def test_every_test_that_is_named_is_there() -> None:
    page = (ROOT / "docs/seed-coverage.md").read_text()
    named = NAMED.findall(page)
    assert len(named) == sum(line.startswith("| ") and "`tests/" in line for line in page.splitlines())
    missing = [f"{path}::{name}" for path, name, _ in named if name not in functions(path)]
    # A parameter is told by its id, which stands over the function, or is one of several joined by a dash.
    missing += [f"{name}[{chosen}]" for path, name, chosen in named if chosen and not functions(path).get(name)]
    assert missing == []
