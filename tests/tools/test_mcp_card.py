"""The card of a proposal (MCP Apps): offered to hosts that show it, and without any decision."""

from typing import Any

import pytest
from mcp import types
from mcp.client import Client
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError

from tests.conformance.served import Door
from tests.conftest import Api
from tools.surfaces.mcp_card import EXTENSION, MEDIA_TYPE, URI

pytestmark = pytest.mark.django_db(transaction=True)
PROPOSING = {"send_email", "reply_email", "forward_email", "send_draft"}


async def cards(client: Client) -> set[str]:
    tools = (await client.list_tools()).tools
    return {tool.name for tool in tools if (tool.meta or {}).get("ui") == {"resourceUri": URI}}


def test_card_is_named_only_to_hosts_that_show_it(url: str, api: Api) -> None:
    door = Door(url=url, secret=api.secret)
    shown = advertise(EXTENSION, {"mimeTypes": [MEDIA_TYPE]})
    assert door.session(cards, extensions=[shown]) == PROPOSING
    assert door.session(cards) == set()
    older = Door(url=url, secret=api.secret, era="legacy")
    assert older.session(cards, query="?toolsets=send,apps") == PROPOSING


def test_card_is_the_only_resource(url: str, api: Api) -> None:
    async def read(client: Client) -> Any:
        listed = (await client.list_resources()).resources
        content = (await client.read_resource(URI)).contents[0]
        try:
            await client.read_resource("ui://mailhub/other")
        except MCPError as error:
            return listed, content, error.error.code
        return listed, content, None

    listed, content, refused = Door(url=url, secret=api.secret).session(read)
    assert [(each.uri, each.mime_type) for each in listed] == [(URI, MEDIA_TYPE)]
    assert (content.mime_type, refused) == (MEDIA_TYPE, types.INVALID_PARAMS)
    for word in ("<form", "<input", "<button", "approve(", "src=", "fetch("):
        assert word not in content.text
