"""The list of tools over MCP follows scopes and toolsets, and is small."""

import json
from collections.abc import Callable

import pytest

from accounts.models import SCOPES, Mailbox, User
from tests.conformance.served import Door
from tests.conftest import Api, make_api
from tests.tools.mcp_door import LIST, door, shown
from tools.catalog.entries import DEFAULT_TOOLSETS, TOOLS

__all__ = ["door"]
pytestmark = pytest.mark.django_db(transaction=True)

TOOL_LIST_BYTES = 10_000


def test_list_follows_the_scopes(door: Door, alice: User, mailbox: Mailbox) -> None:
    for scopes in ([], ["mail:read"], ["mail:propose"], list(SCOPES)):
        token = make_api(alice, mailbox, name="/".join(scopes), scopes=scopes)
        expected = {
            tool.name
            for tool in TOOLS.values()
            if tool.scope in scopes and tool.toolset in DEFAULT_TOOLSETS
        }
        assert set(shown(Door(url=door.url, secret=token.secret, era=door.era))) == expected


def test_list_follows_the_toolsets(door: Door) -> None:
    assert set(shown(door)) == {
        tool.name for tool in TOOLS.values() if tool.toolset in DEFAULT_TOOLSETS
    }
    for query, toolsets in (
        ("?toolsets=mail", {"mail"}),
        ("?toolsets=mail,%20send", {"mail", "send"}),
    ):
        assert set(shown(door, query)) == {
            tool.name for tool in TOOLS.values() if tool.toolset in toolsets
        }


def test_unknown_toolset_is_refused(url: str, api: Api) -> None:
    answer = Door(url=url, secret=api.secret).raw(path="/mcp?toolsets=mail,nonsense", body=LIST)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


def test_annotations_name_only_differences_from_defaults(door: Door) -> None:
    hints = {name: tool.get("annotations", {}) for name, tool in shown(door).items()}

    assert hints["read_email"] == {"readOnlyHint": True}
    assert hints["list_mailboxes"] == {"readOnlyHint": True, "openWorldHint": False}
    # It proposes, and a person decides: nothing is destroyed; but it does not only read.
    assert hints["send_email"] == {"destructiveHint": False}
    # It withdraws a proposal for good.
    assert hints["cancel_action"] == {"idempotentHint": True, "openWorldHint": False}
    for name, tool in TOOLS.items():
        if tool.effect != "read" and name in hints and name != "list_drafts":
            assert "readOnlyHint" not in hints[name]


@pytest.mark.goal("P6")
def test_default_list_is_small(
    url: str, api: Api, record_property: Callable[[str, object], None]
) -> None:
    answer = Door(url=url, secret=api.secret).raw(body=LIST)
    size = len(
        json.dumps(answer.json()["result"], separators=(",", ":"), ensure_ascii=False).encode()
    )
    record_property("tools/list bytes", size)

    assert size <= TOOL_LIST_BYTES
