"""Programs of other projects while they run, and the person in Chromium who answers them."""

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from queue import Queue

import pytest
from playwright.sync_api import Browser, Page

from tests.support.processes.mailhub import Mailhub

SECONDS = 60
CONSENT = re.compile(r"http://localhost:\d+/oauth/authorize\?\S+")


class Running:
    """A program, and the lines that it writes."""

    def __init__(self, command: list[str], **env: str) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        self._lines: dict[str, Queue[str]] = {"stdout": Queue(), "stderr": Queue()}
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._lines
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        for line in getattr(self.process, name):
            self._lines[name].put(line)
        self._lines[name].put("")

    def line(self, stream: str = "stdout") -> str:
        """Return the next line; raise AssertionError with its errors if it has ended."""
        line = self._lines[stream].get(timeout=SECONDS)
        if not line:
            errors = self._lines["stderr"]
            raise AssertionError("".join(errors.get() for _ in range(errors.qsize())))
        return line

    def consent_address(self, stream: str = "stdout") -> str:
        """Return the first address of the consent page that the program writes."""
        while True:
            found = CONSENT.search(self.line(stream))
            if found:
                return found[0]

    def send(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        for reader in self._readers:
            reader.join(SECONDS)
        with self.process:  # closes its pipes
            self.process.wait(SECONDS)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


@pytest.fixture
def page(browser: Browser, mailhub: Mailhub) -> Iterator[Page]:
    """Yield a window of a person who has just signed in."""
    window = browser.new_context(base_url=mailhub.url)
    page = window.new_page()
    page.goto(mailhub.new_link())
    page.locator("form[data-action=sign-in] button").click()
    page.wait_for_url(lambda address: "sign-in" not in address)  # a newcomer is welcomed first
    yield page
    window.close()


def allow(page: Page, *scopes: str) -> None:
    """Allow the program on the open consent page to read, and these scopes, in the first mailbox."""
    for scope in scopes:
        page.locator(f"input[name=scopes][value='{scope}']").check()
    page.locator("input[name=mailboxes]").first.check()
    page.get_by_role("button", name="Connect", exact=True).click()
