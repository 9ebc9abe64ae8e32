"""No right takes a caller without a token for a person: the chat has none either."""

import ast

import pytest

from tests.support.sources import parsed

pytestmark = pytest.mark.static
# The functions that need the row of a token, not the answer to "is this a person?".
NEED_THE_ROW = {
    "Caller.name",
    "Caller.actor",
    "Caller.is_person",
    "mailboxes",  # the mailboxes of the token
    "_find_visible",
    "count_request",  # the limits of a token
    "count_proposal",
    "count_stored",
    "count_upload",
    "_subjects",
    "record",  # the list of a token's requests
    "_owner",  # the threads of the chat have no name
    "find_again",  # the chat is found by its person
    "_insert",  # the proposal keeps the token
    "refuse_callback",  # the webhooks of a token
    "issue",  # a link is bound to the token
    "_caller",
    "_check_scope",  # the program asks its person for more
}


def test_rights_ask_for_a_person_and_not_for_a_missing_token() -> None:
    found: dict[str, str] = {}
    for path, tree in parsed(r"\.token\b"):
        found |= {name: str(path) for name in _askers(tree, "")}
    assert {name: found[name] for name in found.keys() - NEED_THE_ROW} == {}
    assert NEED_THE_ROW - found.keys() == set(), "the list has only what exists"


def _askers(node: ast.AST, place: str) -> set[str]:
    """Return the names of the functions that read `token` of a caller."""
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        inside = place
        if isinstance(child, ast.ClassDef):
            inside = f"{child.name}."
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = f"{place}{child.name}" if place in ("", "Caller.") else place
        if isinstance(child, ast.Attribute) and child.attr == "token":
            of = ast.unparse(child.value)
            if of.split(".")[-1] == "caller" or (of == "self" and place.startswith("Caller.")):
                found.add(place)
        found |= _askers(child, inside)
    return found
