"""Rules that import-linter cannot express: it knows third-party packages only as a whole."""

import ast
from pathlib import Path

import pytest

from tests.support.sources import ROOT, parsed

pytestmark = pytest.mark.static
PACKAGES = ("accounts", "approvals", "tools")
HTTP = ("django.http", "django.shortcuts", "ninja")
# Adapters and views translate between HTTP and the rules; nothing else knows HTTP.
HTTP_IS_THEIRS = (
    "adapters.py", "admin.py", "api.py", "auth.py", "signed_in.py", "step_up.py", "urls.py", "time_zones.py",
    "languages.py",
    # The parts of a request that describe its sender: body, browser, cookie, network, session.
    "json_bodies.py", "browsers.py", "devices.py", "sign_in_events.py", "guessing.py", "networks.py", "sessions.py",
    "streams.py",
)  # fmt: skip
PACKAGES_OF_HTTP = {"migrations", "pages", "surfaces", "views"}


def _is_a_rule(path: Path) -> bool:
    folders = path.relative_to(ROOT).parts
    return (
        folders[0] in PACKAGES
        and not PACKAGES_OF_HTTP & set(folders)
        and not path.name.endswith("views.py")
        and path.name not in HTTP_IS_THEIRS
    )


def _imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_rules_know_no_http() -> None:
    imported = {
        str(path.relative_to(ROOT)): {name for name in _imported(tree) if name.startswith(HTTP)}
        for path, tree in parsed("django|ninja")
        if _is_a_rule(path)
    }
    assert len(imported) > 100
    assert {path: names for path, names in imported.items() if names} == {}


def test_file_is_short_and_has_one_subject() -> None:
    folders = (*PACKAGES, "mailhub", "tests")
    ours = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in ours}
    assert not {
        path: count for path, count in lines.items() if count > 600 and "migrations" not in path
    }


GATED = {"PendingAction", "Revision", "Decision", "Attempt", "Preparation"}
WRITES = {
    "create", "bulk_create", "get_or_create", "update_or_create", "update", "bulk_update", "delete", "move",
}  # fmt: skip


def _root(node: ast.expr) -> str:
    """Return the name at the beginning of a chain of attributes and calls."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _gated_names(tree: ast.AST) -> set[str]:
    """Return the gated models, and the names of rows and querysets of them in this module."""
    found = set(GATED)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _root(node.value) in found:
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_only_the_gate_moves_an_action() -> None:
    written = {}
    for path, tree in parsed("PendingAction|Revision|Decision|Attempt|Preparation"):
        folders = path.relative_to(ROOT).parts
        if folders[0] not in (*PACKAGES, "mailhub") or {"migrations", "gate"} & set(folders):
            continue
        names = _gated_names(tree)
        calls = {
            ast.unparse(node.func)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in WRITES
            and _root(node.func.value) in names
        }
        if calls:
            written[str(path.relative_to(ROOT))] = calls
    assert written == {}
