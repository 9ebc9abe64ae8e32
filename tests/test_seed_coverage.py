"""The page that lists a test for each requirement names existing tests."""

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.static
ROOT = Path(__file__).parent.parent


def test_every_test_named_on_the_page_exists() -> None:
    named = set(
        re.findall(r"`(tests/[\w/]+\.py)::(\w+)", (ROOT / "docs/dev/seed-coverage.md").read_text())
    )
    assert named
    missing = {f"{path}::{name}" for path, name in named if name not in _functions(ROOT / path)}
    assert missing == set()


def _functions(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }
