"""The documentation says what the code does."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command, get_commands

from accounts.problems import STATUS, TITLES
from tools.catalog import TOOLS

pytestmark = pytest.mark.static
DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_of_tools_is_the_catalogue() -> None:
    printed = StringIO()
    call_command("tool_docs", stdout=printed)
    assert (DOCS / "use" / "tools.md").read_text() == printed.getvalue(), "run `make docs`"


def test_every_command_of_ours_is_in_the_page_of_commands() -> None:
    ours = {name for name, app in get_commands().items() if app in ("mailhub", "accounts", "approvals", "tools")}
    page = (DOCS / "operate" / "operations.md").read_text()
    assert not {name for name in ours if f"`{name}" not in page}


def test_every_tool_says_what_it_does_in_few_words() -> None:
    assert all(10 < len(tool.description) < 200 for tool in TOOLS.values())


def test_every_problem_has_a_status_and_a_title() -> None:
    assert set(STATUS) == set(TITLES)
