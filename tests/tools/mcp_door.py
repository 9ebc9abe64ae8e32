"""A served MCP endpoint with a mail in the mailbox, and calls of its tools."""

import json
import re
from typing import Any

import pytest
from mcp.client import Client

from accounts.models import Mailbox
from tests.conformance.served import ERAS, Door
from tests.conftest import Api
from tests.support.servers.memory import MemoryServer
from tests.support.tools import World

MAIL = """\
From: Mira <mira@northwind.example>
To: alice@lovelace.example
Subject: Hej
Message-ID: <1@northwind.example>
Date: Thu, 19 Nov 2026 12:00:00 +0000
Content-Type: multipart/mixed; boundary=part

--part
Content-Type: text/plain; charset=utf-8

Ja tak 👍
--part
Content-Type: text/plain; name=notes.txt
Content-Disposition: attachment; filename=notes.txt

Notes
--part--
"""


@pytest.fixture(params=[pytest.param(ERAS[0], marks=pytest.mark.long), *ERAS[1:]])
def door(request: pytest.FixtureRequest, url: str, api: Api) -> Door:
    return Door(url=url, secret=api.secret, era=request.param)


# The same answers as REST


@pytest.fixture
def world(api: Api, mailbox: Mailbox, server: MemoryServer, settings: Any) -> World:
    settings.MCP_M365_STRICT_READONLY = False  # a command that writes is previewed without the CLI
    server.deliver(mailbox.address, MAIL.replace("\n", "\r\n").encode())
    mail = api.tool("list_emails").json()["emails"][0]["id"]
    attachment = api.tool("list_attachments", message_id=mail).json()["attachments"][0]["id"]
    return World(api=api, mail=mail, attachment=attachment)


def call(door: Door, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """Return a tool's one text, and whether it is an error."""

    async def work(client: Client) -> Any:
        return await client.call_tool(name, arguments)

    result = door.session(work)
    (content,) = result.content
    assert result.structured_content is None
    return content.text, bool(result.is_error)


def scrubbed(text: str) -> dict[str, Any]:
    """Return a result without the parts that differ between actions or times."""
    for pattern in (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        r"[0-9a-f]{64}",
        r"drafts:\d+(:[0-9a-f]+)?",
        r'(?<="uid":) ?\d+',
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)",
    ):
        text = re.sub(pattern, "0", text)
    document: dict[str, Any] = json.loads(text)
    document.pop("instance", None)  # the path of a request, of which MCP has one
    # Everything is proposed twice here, so the second has a warning about the first.
    if "warnings" in document:
        document["warnings"] = [
            one for one in document["warnings"] if one["code"] != "possible_duplicate"
        ]
    return document


LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def shown(door: Door, query: str = "") -> dict[str, Any]:
    """Return the tools by name, as they came over the wire."""

    async def work(client: Client) -> Any:
        return await client.list_tools()

    tools = door.session(work, query=query).tools
    return {
        tool.name: tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools
    }
