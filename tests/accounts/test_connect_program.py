"""The page "Connect a program": every line on it works."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from django.test import Client as Browser
from django.utils import timezone
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from accounts.models import Mailbox, User
from accounts.views.program_lines import PROGRAMS
from approvals.models import PendingAction
from mailhub.asgi import application
from tests.conformance.served import SECONDS, served
from tests.conftest import Api, make_api
from tests.support.servers.m365 import npm_folder

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


@pytest.fixture
def hub(settings: Any) -> Iterator[str]:
    with served(application) as address:
        settings.MAILHUB_PUBLIC_URL = address
        yield address


@pytest.fixture
def window(alice: User) -> Browser:
    browser = Browser()
    browser.force_login(alice)
    return browser


def shown_lines(page: str) -> list[str]:
    """Return the lines of a page, as a person copies them."""
    return [unescape(lines) for lines in re.findall(r"<pre[^>]*data-copy>(.*?)</pre>", page, re.S)]


def lines_of(program: str, hub: str, token: str) -> list[str]:
    (found,) = (each for each in PROGRAMS if each.key == program)
    return [way.fill(hub, token) for way in found.ways]


def tools_at(url: str, headers: dict[str, str]) -> set[str]:
    """Return the names of the tools that an MCP client sees there."""

    async def run() -> set[str]:
        with anyio.fail_after(SECONDS):
            async with (
                httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                return {tool.name for tool in (await client.list_tools()).tools}

    return anyio.run(run)


def servers_in(configuration: Any) -> list[dict[str, Any]]:
    """Return the entries named mailhub, at any depth of a configuration."""
    if not isinstance(configuration, dict):
        return []
    inside = [each for value in configuration.values() for each in servers_in(value)]
    return ([configuration["mailhub"]] if "mailhub" in configuration else []) + inside


def lets_programs_sign_in(url: str) -> bool:
    """Return True if a program that only knows the address learns where to sign in."""
    refused = httpx2.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    where = re.search(r'resource_metadata="([^"]+)"', refused.headers["WWW-Authenticate"])
    assert refused.status_code == 401
    assert where
    resource = httpx2.get(where[1]).json()
    server = resource["authorization_servers"][0].rstrip("/")
    found = httpx2.get(f"{server}/.well-known/oauth-authorization-server").json()
    return bool(resource["resource"] == url and found["registration_endpoint"].startswith(server))


def test_page_shows_the_lines_of_every_program(window: Browser, hub: str) -> None:
    page = window.get("/programs/connect/").content.decode()
    ways = [way for program in PROGRAMS for way in program.ways]
    assert shown_lines(page) == [way.fill(hub, "mh_YOUR_TOKEN") for way in ways]
    assert 'href="/programs/connect/"' in window.get("/tokens/").content.decode()


def test_new_token_is_in_the_lines_beside_it(window: Browser, hub: str, mailbox: Mailbox) -> None:
    form = {"name": "mine", "scopes": ["mail:read"], "mailboxes": [mailbox.pk], "days": "90"}
    page = window.post("/tokens/new/", form).content.decode()
    secret = re.search(r'id="secret"[^>]*value="(mh_[^"]+)"', page)
    assert secret
    assert all("mh_YOUR_TOKEN" not in lines for lines in shown_lines(page))
    assert any(secret[1] in lines for lines in shown_lines(page))


@pytest.mark.parametrize("program", ["claude-ai", "claude-desktop", "chatgpt"])
def test_address_lets_a_hosted_program_sign_in(program: str, hub: str, db: None) -> None:
    assert lets_programs_sign_in(lines_of(program, hub, "")[0])


@pytest.mark.parametrize("program", ["cursor", "vs-code", "windsurf", "zed"])
def test_configuration_of_an_editor_connects(program: str, hub: str, api: Api) -> None:
    (server,) = servers_in(json.loads(lines_of(program, hub, api.secret)[0]))
    url = server.get("url") or server["serverUrl"]
    if "headers" in server:
        assert "send_email" in tools_at(url, server["headers"])
    else:
        assert lets_programs_sign_in(url)


def test_bridge_of_claude_desktop_connects(hub: str, api: Api, installed: Path) -> None:
    (server,) = servers_in(json.loads(lines_of("claude-desktop", hub, api.secret)[1]))
    bridge = StdioServerParameters(
        command=str(installed / "bin" / server["command"]),
        env={**server["env"], "PYTHONPATH": str(installed)},
    )

    async def run() -> set[str]:
        with anyio.fail_after(SECONDS):
            async with Client(bridge) as client:
                return {tool.name for tool in (await client.list_tools()).tools}

    assert "send_email" in anyio.run(run)


@pytest.mark.parametrize("program", ["claude-code", "gemini-cli", "codex"])
def test_command_names_an_address_that_lets_sign_in(program: str, hub: str, db: None) -> None:
    (line,) = lines_of(program, hub, "")
    url = re.search(r"http\S+/mcp", line)
    assert url
    assert lets_programs_sign_in(url[0])


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("program", "package", "kept"),
    [
        ("claude-code", "@anthropic-ai/claude-code", ".claude.json"),
        ("gemini-cli", "@google/gemini-cli", ".gemini/settings.json"),
        ("codex", "@openai/codex", ".codex/config.toml"),
    ],
)
def test_command_is_one_that_the_program_takes(
    program: str, package: str, kept: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    packages = npm_folder(
        request.config, "install", "--no-audit", "--no-fund", "--no-save", "--prefix", ".", package
    )
    (line,) = lines_of(program, "http://127.0.0.1:9", "")
    path = f"{packages / 'node_modules/.bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": path},
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert "http://127.0.0.1:9/mcp" in (tmp_path / kept).read_text()


@pytest.mark.parametrize("program", ["curl", "n8n"])
def test_lines_for_a_shell_run(program: str, hub: str, api: Api) -> None:
    (lines,) = lines_of(program, hub, api.secret)
    done = subprocess.run(["sh", "-c", lines], capture_output=True, timeout=SECONDS, check=True)
    answer = json.loads(done.stdout)
    if program == "curl":
        assert "send_email" in {tool["name"] for tool in answer["tools"]}
    else:
        assert answer["status"] == "pending"
        assert PendingAction.objects.count() == 1


def test_another_client_lists_the_tools(hub: str, api: Api) -> None:
    code, inspector, address = lines_of("mcp-client", hub, api.secret)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert "send_email" in done.stdout.decode().split()
    assert address.split("\n") == [f"{hub}/mcp", f"Authorization: Bearer {api.secret}"]
    assert f" {hub}/mcp " in inspector


def test_tool_for_langchain_proposes(hub: str, api: Api, installed: Path) -> None:
    (lines,) = lines_of("langchain", hub, api.secret)
    call = {"to": "mira@northwind.example", "subject": "Hello", "body": "Until Thursday."}
    done = subprocess.run(
        [sys.executable, "-c", f"{lines}\nprint(propose_mail.invoke({call!r}))"],
        capture_output=True,
        env={"PYTHONPATH": str(installed)},
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert f"/actions/{PendingAction.objects.get().pk}/" in done.stdout.decode()


def test_lines_for_python_propose(hub: str, api: Api, installed: Path) -> None:
    (lines,) = lines_of("python", hub, api.secret)
    done = subprocess.run(
        [sys.executable, "-c", lines],
        capture_output=True,
        env={"PYTHONPATH": str(installed)},
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert f"/actions/{PendingAction.objects.get().pk}/" in done.stdout.decode()


def test_heading_names_the_internet_only_where_it_matters(window: Browser, hub: str) -> None:
    page = window.get("/programs/connect/").content.decode()
    assert page.count("if the internet cannot reach this address") == 1


def test_sign_appears_after_the_first_call(
    window: Browser, hub: str, alice: User, bob: User, mailbox: Mailbox
) -> None:
    def seen(since: str) -> Any:
        return window.get("/programs/seen/", {"since": since}).json()["connected"]

    opened = timezone.now().isoformat()
    assert seen(opened) == []
    make_api(alice, mailbox, name="never used")
    make_api(bob, mailbox, name="of bob").tool("list_mailboxes")
    assert seen(opened) == []
    make_api(alice, mailbox, name="mine").tool("list_mailboxes")
    assert seen(opened) == ["mine"]
    assert seen((timezone.now() + timedelta(minutes=1)).isoformat()) == []
    assert seen("nonsense") == seen("2026-11-23T10:00:00") == seen("2026-99-99T00:00:00Z") == []
