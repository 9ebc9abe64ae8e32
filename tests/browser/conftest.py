"""One mailhub for all browser tests of a worker, one Chromium for each file; each test has new
windows.
"""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.approvals import conftest as gate
from tests.support.people.chromium import find_chromium
from tests.support.processes.mailhub import Mailhub

PATIENCE_MS = 30_000
script = gate.script
QUIET = [
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def picture(page: Page, name: str) -> None:
    """Save a screenshot for people if MAILHUB_PICTURES names a folder."""
    folder = os.environ.get("MAILHUB_PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.fixture(scope="session")
def mailhub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mailhub]:
    with Mailhub(tmp_path_factory.mktemp("mailhub"), MAILHUB_UNDO_SECONDS=1) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a Chromium, but not for the whole session.

    While it runs, playwright's event loop runs in the tests' own thread, and Django would refuse
    its database there.
    """
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=QUIET)
        yield chromium
        chromium.close()


class Canary:
    """A web server that must not be called; it records the requested paths."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(204)
                self.end_headers()

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Write nothing to standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=lambda: self._server.serve_forever(poll_interval=0.05), daemon=True
        )

    def __enter__(self) -> "Canary":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
