"""Every requirement is used: something imports it, names it in the settings, or runs its program."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.static
ROOT = Path(__file__).parent.parent
SOURCES = ("accounts", "approvals", "tools", "mailhub", "tests", "bin")
# Requirements that no module names: a file that uses each, and the word by which it does.
USED_ELSEWHERE = {
    "uvloop": ("mailhub/web_server.py", '"uvloop"'),
    "mypy": ("Makefile", "-m mypy"),
    "ruff": ("Makefile", "bin/ruff"),
    "import-linter": ("Makefile", "lint-imports"),
    "djangofmt": ("Makefile", "bin/djangofmt"),
    "pytest-xdist": ("bin/test", '"-n"'),
    "pytest-randomly": ("bin/test", '"randomly"'),
    "pytest-timeout": ("pyproject.toml", "timeout ="),
    "pytest-django": ("pyproject.toml", "DJANGO_SETTINGS_MODULE"),
    "atheris": ("tests/fuzz/__main__.py", "import atheris"),
    "cyclonedx-bom": ("bin/release", "cyclonedx-py"),
    "langchain-anthropic": ("docs/use/agent.md", "anthropic:"),
}
STUBS = ("types-", "django-stubs")


def read_requirements(pattern: str) -> list[Requirement]:
    """Return the requirements in the files of requirements/ that the pattern names."""
    lines = (
        line
        for path in (ROOT / "requirements").glob(pattern)
        for line in path.read_text().splitlines()
    )
    return [Requirement(line.removesuffix("\\")) for line in lines if re.match(r"[A-Za-z]", line)]


def required() -> set[str]:
    """Return the names in requirements/*.in that apply to this system, in lower case."""
    found = read_requirements("*.in")
    return {each.name.lower() for each in found if each.marker is None or each.marker.evaluate()}


def is_named(module: str, sources: list[str]) -> bool:
    """Return True if code imports a top-level module, or names it in a string as the settings do."""
    return any(module in text and module in _named_in(text) for text in sources)


def list_sources() -> Iterator[str]:
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix == ".py" or (folder == "bin" and path.is_file()):
                text = path.read_text()
                if path.suffix == ".py" or "python" in text.split("\n", 1)[0]:
                    yield text


@cache
def _named_in(text: str) -> set[str]:
    """Return the top-level modules that a source imports or names in a string."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return {name.partition(".")[0] for name in found}


def test_every_requirement_is_used() -> None:
    modules: dict[str, set[str]] = {}
    for module, names in packages_distributions().items():
        for name in names:
            modules.setdefault(name.lower(), set()).add(module)
    sources = list(list_sources())
    unused = {
        name
        for name in required()
        if name not in USED_ELSEWHERE
        and not name.startswith(STUBS)
        and not any(
            is_named(module, sources)
            for module in modules.get(distribution(name).name.lower(), set())
        )
    }
    assert unused == set()


def test_requirements_are_used_where_the_table_says() -> None:
    assert {
        name: place
        for name, (place, word) in USED_ELSEWHERE.items()
        if word not in (ROOT / place).read_text()
    } == {}


def test_client_library_has_the_bounds_that_it_is_tested_with() -> None:
    project = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())
    ours = {each.name: each.specifier for each in read_requirements("test.in")}
    for needed in map(Requirement, project["project"]["dependencies"]):
        assert ours[needed.name] == needed.specifier
    # The pinned uv builds its wheel without the network.
    (builder,) = map(Requirement, project["build-system"]["requires"])
    (uv,) = (each for each in read_requirements("bootstrap.txt") if each.name == "uv")
    assert all(builder.specifier.contains(pin.version) for pin in uv.specifier)
