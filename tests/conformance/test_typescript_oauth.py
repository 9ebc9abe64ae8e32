"""A program that nobody prepared: the official TypeScript SDK registers itself, a person signs it in
and approves its mail in Chromium, and it receives the receipt. No token is fixed anywhere.
"""

import json
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import browser, mailhub
from tests.conformance.npm import SDK, install
from tests.support.processes.mailhub import Mailhub

pytestmark = [
    pytest.mark.long,
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.timeout(600),
]
__all__ = ["browser", "mailhub"]
CLIENT = Path(__file__).parent / "typescript_client.mjs"
SECONDS = 60
SCOPES = {"mail:read", "mail:propose"}


class Desk:
    """The running program, and the steps that it tells."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._steps: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._steps.put(line)
        self._steps.put("")

    def step(self, name: str) -> Any:
        """Return what the program tells next, which must be this step."""
        line = self._steps.get(timeout=SECONDS)
        if not line:
            raise AssertionError(self.process.communicate(timeout=SECONDS)[1])
        told = json.loads(line)
        assert told["step"] == name, told
        return told["value"]

    def end(self) -> None:
        self.process.kill()
        self._reader.join(SECONDS)
        with self.process:  # closes its pipes
            self.process.wait(SECONDS)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("npm"), SDK)


@pytest.fixture
def subject() -> str:
    return f"From TypeScript {uuid.uuid4().hex}"


@pytest.fixture
def desk(modules: Path, mailhub: Mailhub, subject: str) -> Iterator[Desk]:
    program = shutil.copy(CLIENT, modules.parent)
    running = Desk([str(modules / ".bin/node"), program, f"{mailhub.url}/mcp", subject])
    yield running
    running.end()


@pytest.fixture
def page(browser: Browser, mailhub: Mailhub) -> Iterator[Page]:
    """Yield a window of a person who has just signed in."""
    window = browser.new_context(base_url=mailhub.url)
    page = window.new_page()
    page.goto(mailhub.new_link())
    page.locator("form[data-action=sign-in] button").click()
    page.wait_for_url(f"{mailhub.url}/")
    yield page
    window.close()


def test_unknown_program_gets_its_receipt(
    desk: Desk, page: Page, mailhub: Mailhub, subject: str
) -> None:
    page.goto(desk.step("sign in"))
    expect(page.get_by_role("heading", name="Connect TypeScript desk?")).to_be_visible()
    expect(page.get_by_text("unverified")).to_be_visible()
    ticked = page.locator("input[name=scopes]:checked")
    assert [each.get_attribute("value") for each in ticked.all()] == ["mail:read"]
    page.locator("input[name=scopes][value='mail:propose']").check()
    page.locator("input[name=mailboxes]").first.check()
    page.get_by_role("button", name="Connect", exact=True).click()
    expect(page.get_by_text("You can close this page.")).to_be_visible()

    assert set(desk.step("granted").split()) == SCOPES
    tools = desk.step("tools")
    assert {"list_emails", "send_email", "get_action"} <= set(tools)
    assert "create_draft" not in tools

    action = desk.step("proposed")
    page.goto(action["review_url"])
    expect(page.get_by_text(subject).first).to_be_visible()
    page.locator("form[data-action=approve] button").first.click()
    receipt = desk.step("receipt")
    assert (receipt["id"], receipt["state"]) == (action["id"], "succeeded"), receipt
    assert desk.process.wait(SECONDS) == 0
    assert len(mailhub.mail("mira@northwind.example", "INBOX", subject)) == 1

    page.goto("/tokens/")
    row = page.locator(".list li", has_text="TypeScript desk")
    expect(row.get_by_text("connected program, unverified")).to_be_visible()
    expect(row.get_by_text("Last used:")).to_be_visible()
