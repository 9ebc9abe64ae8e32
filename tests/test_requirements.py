"""The client library is tested with the bounds that it declares."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.static
ROOT = Path(__file__).parent.parent


def read_requirements(pattern: str) -> list[Requirement]:
    """Return the requirements in the files of requirements/ that the pattern names."""
    lines = (
        line
        for path in (ROOT / "requirements").glob(pattern)
        for line in path.read_text().splitlines()
    )
    return [Requirement(line.removesuffix("\\")) for line in lines if re.match(r"[A-Za-z]", line)]


def test_client_library_has_the_bounds_that_it_is_tested_with() -> None:
    project = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())
    ours = {each.name: each.specifier for each in read_requirements("test.in")}
    for needed in map(Requirement, project["project"]["dependencies"]):
        assert ours[needed.name] == needed.specifier
    # The pinned uv builds its wheel without the network.
    (builder,) = map(Requirement, project["build-system"]["requires"])
    (uv,) = (each for each in read_requirements("bootstrap.txt") if each.name == "uv")
    assert all(builder.specifier.contains(pin.version) for pin in uv.specifier)
