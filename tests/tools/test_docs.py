"""The documentation matches the code."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_type_hints

import pytest
from django.core.management import get_commands
from typing_extensions import is_typeddict

from accounts.infra.problems import STATUS, TITLES
from approvals.reports.report import ActionReport
from tests.support.commands.management.commands.tool_docs import make_pages
from tools import answers
from tools.catalog.entries import TOOLS

pytestmark = pytest.mark.static
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOPS = ("accounts", "approvals", "mailhub", "tests", "tools")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def test_pages_about_tools_and_warnings_are_made_from_the_code() -> None:
    assert [page.name for page, text in make_pages().items() if page.read_text() != text] == [], (
        "run `make docs`"
    )


def test_every_member_of_an_answer_is_in_the_contract() -> None:
    written = set(re.findall(r"\w+", (DOCS / "contract.md").read_text()))
    types = [each for each in vars(answers).values() if is_typeddict(each)]
    assert ActionReport in types
    assert {name for each in types for name in get_type_hints(each)} - written == set()


def test_every_command_of_ours_is_on_the_page_of_commands() -> None:
    ours = {
        name
        for name, app in get_commands().items()
        if app in ("mailhub", "accounts", "approvals", "tools")
    }
    page = (DOCS / "operate" / "operations.md").read_text()
    assert not {name for name in ours if f"`{name}" not in page}


def test_every_tool_has_a_short_description() -> None:
    assert all(10 < len(tool.description) < 200 for tool in TOOLS.values())


def test_every_problem_has_a_status_and_a_title() -> None:
    assert set(STATUS) == set(TITLES)


def test_every_link_between_documents_leads_somewhere() -> None:
    assert {
        str(page.relative_to(ROOT)): links for page in PAGES if (links := list(_broken_links(page)))
    } == {}


def _broken_links(page: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in _anchors(target)):
                yield link


def test_every_module_that_a_page_names_exists() -> None:
    """Records and the changelog may name what was there."""
    modules = [f"/{each.relative_to(ROOT)}" for top in TOPS for each in (ROOT / top).rglob("*.py")]
    for page in (*ROOT.glob("CONTRIBUTING.md"), *DOCS.glob("*.md"), DOCS / "dev" / "glossary.md"):
        named = set(re.findall(r"`([\w/]+\.py)`", page.read_text()))
        assert [each for each in named if not any(m.endswith(f"/{each}") for m in modules)] == [], (
            page
        )


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = {
        (DOCS / link).resolve()
        for link in re.findall(r"\]\(([^)\s#]+)", (DOCS / "README.md").read_text())
    }
    assert sorted(set(DOCS.rglob("*.md")) - listed) == [DOCS / "README.md"]


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
