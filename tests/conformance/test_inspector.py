"""The command line of MCP Inspector, the tool of the MCP project for trying servers, connects."""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from accounts.models import Mailbox, User
from approvals.models import PendingAction
from mailhub.asgi import application
from tests.conformance.npm import INSPECTOR, install
from tests.conformance.running import SECONDS, Running
from tests.conformance.served import served
from tests.conftest import HELLO, Api, Reviewer
from tests.support.people.programs import allow
from tests.support.processes.programs import until
from tests.support.servers.services import free_port
from tests.support.work import work

pytestmark = [pytest.mark.long, pytest.mark.process, pytest.mark.timeout(600)]
ERAS = ("legacy", "modern")
FORMAT = ("--format", "json")


@pytest.fixture(scope="module")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    modules = install(tmp_path_factory.mktemp("npm"), INSPECTOR)
    launcher = modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    return [str(modules / ".bin/node"), str(launcher), "--cli"]


@pytest.fixture
def url() -> Iterator[str]:
    with served(application) as address:
        yield f"{address}/mcp"


def with_token(
    inspector: list[str], url: str, api: Api, home: Path, era: str, *arguments: str
) -> Any:
    """Return the JSON that the command prints."""
    header = f"Authorization: Bearer {api.secret}"
    done = subprocess.run(
        [*inspector, url, "--header", header, *FORMAT, "--protocol-era", era, *arguments],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("era", ERAS)
def test_inspector_lists_tools_with_a_token(
    inspector: list[str], url: str, api: Api, tmp_path: Path, era: str
) -> None:
    found = with_token(inspector, url, api, tmp_path, era, "--method", "tools/list", "--strict")
    tools = {tool["name"] for tool in found.get("result", found)["tools"]}
    assert {"list_emails", "send_email", "get_action"} <= tools


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("era", ERAS)
def test_inspector_proposes_with_a_token(
    inspector: list[str], url: str, api: Api, reviewer: Reviewer, tmp_path: Path, era: str
) -> None:
    """In 2026-07-28 it takes the proposal as a task, and waits for the person."""
    mail = json.dumps({**HELLO, "confirm": True})
    call = ("--method", "tools/call", "--tool-name", "send_email", "--tool-args-json", mail)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(with_token, inspector, url, api, tmp_path, era, *call)
        until(lambda: PendingAction.objects.exists() or running.done())
        action_id = str(PendingAction.objects.get().pk)
        if era == "modern":
            reviewer.decide(action_id, "approve")
            work()
        called = running.result(SECONDS)
    action = json.loads(called.get("result", called)["content"][0]["text"])
    if era == "modern":
        assert (action["id"], action["state"]) == (action_id, "succeeded")
    else:
        assert (action["action"]["id"], action["status"]) == (action_id, "pending")


@pytest.mark.django_db(transaction=True)
def test_inspector_signs_in_by_oauth(
    inspector: list[str], url: str, alice: User, mailbox: Mailbox, tmp_path: Path, settings: Any
) -> None:
    settings.MAILHUB_PUBLIC_URL = url.removesuffix("/mcp")
    back = f"http://127.0.0.1:{free_port()}/oauth/callback"
    command = [*inspector, url, "--callback-url", back, "--method", "tools/list", *FORMAT]
    with Running(command, HOME=str(tmp_path), MCP_AUTO_OPEN_ENABLED="true") as running:
        leads = allow(alice, running.consent_address("stderr"), mailbox, scopes="mail:read")
        assert leads.status_code == 302, leads.content
        httpx2.get(leads["Location"], timeout=SECONDS).raise_for_status()
        listed = json.loads(running.line())
        assert running.process.wait(SECONDS) == 0
    tools = {tool["name"] for tool in listed.get("result", listed)["tools"]}
    assert "list_emails" in tools
    assert "send_email" not in tools, "the person allowed only reading"
