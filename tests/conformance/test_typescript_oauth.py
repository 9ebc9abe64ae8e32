"""A program that nobody prepared: the official TypeScript SDK registers itself, a person signs it in
and approves its mail in Chromium, and its task ends with the receipt. No token is fixed anywhere.
"""

import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.presses import approve
from tests.conformance.npm import SDK, install
from tests.conformance.running import SECONDS, Running, allow, page
from tests.support.processes.mailhub import Mailhub

pytestmark = [
    pytest.mark.long,
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.timeout(600),
]
__all__ = ["page"]
CLIENT = Path(__file__).parent / "typescript_client.mjs"
SCOPES = {"mail:read", "mail:propose"}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("npm"), SDK)


@pytest.fixture
def subject() -> str:
    return f"From TypeScript {uuid.uuid4().hex}"


@pytest.fixture
def desk(modules: Path, mailhub: Mailhub, subject: str) -> Iterator[Running]:
    program = str(shutil.copy(CLIENT, modules.parent))
    command = [str(modules / ".bin/node"), program, f"{mailhub.url}/mcp", subject]
    with Running(command) as running:
        yield running


def told(desk: Running, name: str) -> Any:
    """Return what the program tells next, which must be this step."""
    line = json.loads(desk.line())
    assert line["step"] == name, line
    return line["value"]


def test_unknown_program_gets_its_receipt(
    desk: Running, page: Page, mailhub: Mailhub, subject: str
) -> None:
    page.goto(told(desk, "sign in"))
    expect(page.get_by_role("heading", name="Connect TypeScript desk?")).to_be_visible()
    expect(page.get_by_text("unverified")).to_be_visible()
    ticked = page.locator("input[name=scopes]:checked")
    assert [each.get_attribute("value") for each in ticked.all()] == ["mail:read"]
    allow(page, "mail:propose")
    expect(page.get_by_text("You can close this page.")).to_be_visible()

    assert set(told(desk, "granted").split()) == SCOPES
    tools = told(desk, "tools")
    assert {"list_emails", "send_email", "get_action"} <= set(tools)
    assert "create_draft" not in tools

    task = told(desk, "task")
    assert (task["resultType"], task["status"]) == ("task", "working")
    page.goto(task["statusMessage"].removeprefix("A person decides at "))
    expect(page.get_by_text(subject).first).to_be_visible()
    approve(page)
    receipt = told(desk, "receipt")
    assert receipt["status"] == "completed"
    assert receipt["action"]["state"] == "succeeded", receipt
    assert desk.process.wait(SECONDS) == 0
    assert len(mailhub.mail("mira@northwind.example", "INBOX", subject)) == 1

    page.goto("/tokens/")
    row = page.locator(".list li", has_text="TypeScript desk")
    expect(row.get_by_text("connected program, unverified")).to_be_visible()
    expect(row.get_by_text("Last used:")).to_be_visible()
