"""Rules that import-linter cannot express: it knows third-party packages only as a whole."""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.static
ROOT = Path(__file__).parent.parent
PACKAGES = ("accounts", "approvals", "tools")
# Adapters and views translate between HTTP and the rules; nothing else knows HTTP.
HTTP_IS_THEIRS = (
    "adapters.py", "admin.py", "api.py", "auth.py", "signed_in.py", "step_up.py", "urls.py", "time_zones.py",
    "languages.py",
    # The parts of a request that describe its sender: body, browser, cookie, network, session.
    "json_bodies.py", "browsers.py", "devices.py", "sign_in_events.py", "guessing.py", "networks.py", "sessions.py",
)  # fmt: skip
PACKAGES_OF_HTTP = {"migrations", "pages", "surfaces", "views"}


def _modules() -> list[Path]:
    return [
        path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if not PACKAGES_OF_HTTP & set(path.relative_to(ROOT).parts)
        and not path.name.endswith("views.py")
        and path.name not in HTTP_IS_THEIRS
    ]


def _imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_rules_know_no_http(path: Path) -> None:
    known = {
        name
        for name in _imported(path)
        if name.startswith(("django.http", "django.shortcuts", "ninja"))
    }
    assert not known


def test_file_is_short_and_has_one_subject() -> None:
    folders = (*PACKAGES, "mailhub", "tests")
    ours = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in ours}
    assert not {
        path: count for path, count in lines.items() if count > 400 and "migrations" not in path
    }
