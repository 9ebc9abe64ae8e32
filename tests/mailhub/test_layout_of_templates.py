"""Checks that djangofmt does not make: it keeps long lines, and Django shows a cut tag as text."""

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.static
ROOT = Path(__file__).parent.parent.parent
CUT_TAG = re.compile(r"\{%(?:(?!%\}).)*$", re.MULTILINE)
EXCLUDED = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["djangofmt"]["extend-exclude"]
)
FOLDERS_LEFT_OUT = tuple(f"{name}/" for name in EXCLUDED if not name.endswith(".html"))


def templates() -> dict[str, str]:
    paths = [*ROOT.glob("templates/**/*.html"), *ROOT.glob("templates/**/*.txt")]
    found = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
    assert len(found) > 50
    return {name: text for name, text in found.items() if not name.startswith(FOLDERS_LEFT_OUT)}


def test_cut_tag_is_found() -> None:
    assert CUT_TAG.findall('{% if a %}\n{% include "b"\n  with c=d %}') == ['{% include "b"']


def test_template_tags_end_on_their_line() -> None:
    assert {name for name, text in templates().items() if CUT_TAG.search(text)} == set()
