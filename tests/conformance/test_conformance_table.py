"""The tables of docs/dev/conformance.md say what the suite has, and what the tests run."""

import re
from pathlib import Path

import pytest

from tests.conformance import test_mcp_conformance, test_oauth_clients
from tests.conformance.test_mcp_conformance import ERAS, listed_scenarios, suite

__all__ = ["suite"]
PAGE = Path(__file__).parents[2] / "docs/dev/conformance.md"
RUN = {*test_mcp_conformance.OFFERED, *test_oauth_clients.SCENARIOS}


def results() -> dict[str, dict[str, str]]:
    """Return the result of each scenario for each version that it is part of."""
    rows = re.findall(r"^\| `(\S+)` \| ([^|]+) \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
    return {
        name: {era: said for era, said in zip(ERAS, cells, strict=True) if said != "-"}
        for name, *cells in rows
    }


@pytest.mark.static
def test_scenarios_that_pass_are_those_that_run() -> None:
    found = results()
    assert {name for name, said in found.items() if "pass" in said.values()} == RUN
    assert {each for said in found.values() for each in said.values()} == {"pass", "not offered"}
    assert all(len(set(said.values())) == 1 for said in found.values())


@pytest.mark.long
@pytest.mark.timeout(600)
def test_table_names_every_scenario_and_its_versions(suite: list[str]) -> None:
    listed = listed_scenarios(suite, "Server scenarios")
    listed |= listed_scenarios(suite, "Authorization server scenarios")
    extension = {name for name, versions in listed.items() if versions == ["extension"]}
    current = {
        name: {era for era in ERAS if era in versions} or {ERAS[1]}
        for name, versions in listed.items()
        if name in extension or set(versions) & set(ERAS)
    }
    assert {name: set(said) for name, said in results().items()} == current
