"""The sign-in of programs passes the suite of the MCP project, and mcp-remote connects through it."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.conformance.npm import CONFORMANCE, REMOTE, install
from tests.conformance.running import SECONDS, Running, allow, page
from tests.support.processes.mailhub import Mailhub
from tests.support.processes.person import request
from tests.support.servers.services import free_port

pytestmark = [
    pytest.mark.long,
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.timeout(600),
]
__all__ = ["page"]
ERAS = ("2025-11-25", "2026-07-28")
SCENARIOS = ("authorization-server-metadata-endpoint", "authorization-code-grant")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("npm"), CONFORMANCE, REMOTE)


@pytest.mark.parametrize("era", ERAS)
def test_authorization_scenarios_pass(
    modules: Path, mailhub: Mailhub, page: Page, tmp_path: Path, era: str
) -> None:
    port = free_port()
    metadata = {"client_name": "Suite", "redirect_uris": [f"http://127.0.0.1:{port}/callback"]}
    known = request(
        f"{mailhub.url}/oauth/register",
        "POST",
        body=json.dumps(metadata).encode(),
        headers={"Content-Type": "application/json"},
    ).json()
    command = [
        str(modules / ".bin/node"),
        str(modules / "@modelcontextprotocol/conformance/dist/index.js"),
        *("authorization", "--url", mailhub.url, "--client-id", known["client_id"]),
        *("--resource", f"{mailhub.url}/mcp", "--port", str(port)),
        *("--spec-version", era, "--output-dir", str(tmp_path)),
    ]
    with Running(command) as suite:
        page.goto(suite.consent_address())
        allow(page)
        assert suite.process.wait(SECONDS) == 0
    checks = [
        check
        for file in sorted(tmp_path.rglob("checks.json"))
        for check in json.loads(file.read_text())
    ]
    assert {check["status"] for check in checks} == {"SUCCESS"}, checks
    ran = {re.sub(r"-\d{4}-.*", "", file.parent.name) for file in tmp_path.rglob("checks.json")}
    assert {name for name in SCENARIOS if any(name in each for each in ran)} == set(SCENARIOS)


def test_remote_bridge_signs_in_and_lists_tools(
    modules: Path, mailhub: Mailhub, page: Page, tmp_path: Path
) -> None:
    """mcp-remote is how clients that only start programs reach a server with OAuth."""
    command = [
        str(modules / ".bin/node"),
        str(modules / "mcp-remote/dist/proxy.js"),
        *(f"{mailhub.url}/mcp", str(free_port()), "--transport", "http-only"),
    ]
    with Running(command, MCP_REMOTE_CONFIG_DIR=str(tmp_path), BROWSER="true") as bridge:
        page.goto(bridge.consent_address("stderr"))
        allow(page)
        expect(page.get_by_text(re.compile("Authorization successful", re.I))).to_be_visible()
        start = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "desk", "version": "1"},
        }
        bridge.send(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start})
        )
        assert json.loads(bridge.line())["result"]["serverInfo"]["name"] == "mailhub"
        bridge.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        bridge.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
        tools = {tool["name"] for tool in json.loads(bridge.line())["result"]["tools"]}
    assert "list_emails" in tools
    assert "send_email" not in tools, "the person ticked only reading"
