"""The source text of the product, read once for all tests of a process that look at it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("accounts", "approvals", "tools", "mailhub")


@cache
def product() -> dict[Path, str]:
    """Return the text of each module of the product."""
    return {
        path: path.read_text()
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def parsed(words: str) -> Iterator[tuple[Path, ast.Module]]:
    """Yield each module of the product in which the regular expression `words` matches.

    To parse all modules costs half a second, so a test names the words that it looks for.
    """
    for path, text in product().items():
        if re.search(words, text):
            yield path, _tree(path)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(product()[path])
