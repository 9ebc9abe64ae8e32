"""The browser that the tests start: one Chromium for a test process."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Where the programs are if they are not on PATH: Debian, and Homebrew's casks.
PLACES = (
    "/usr/bin/chromium",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
QUIET = [
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str:
    """Return the path of Chromium or Chrome; raises RuntimeError without one."""
    on_path = shutil.which("chromium")
    for place in (on_path, *PLACES):
        if place and Path(place).exists():
            return place
    raise RuntimeError("Chromium is not installed. Run bin/system-packages.")


class Chromium:
    """A running Chromium, and the event loop with which playwright drives it.

    Playwright marks its loop as running in the thread of the tests, and Django refuses its
    database in a thread with a running loop. So the loop has the mark only while a module uses the
    browser.
    """

    def __init__(self, browser: "Browser", loop: asyncio.AbstractEventLoop) -> None:
        self._browser, self._loop = browser, loop

    @contextmanager
    def lent(self) -> Iterator["Browser"]:
        """Yield the browser, and close the windows that are left open."""
        asyncio._set_running_loop(self._loop)
        try:
            yield self._browser
            for window in self._browser.contexts:
                window.close()
        finally:
            asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """Yield the Chromium of this test process."""
    # Imported here, because most test processes start no browser.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=QUIET)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield Chromium(browser, loop)
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture(scope="module")
def browser(chromium: Chromium) -> Iterator["Browser"]:
    """Yield the Chromium of this test process, for one module."""
    with pytest.MonkeyPatch.context() as patch, chromium.lent() as lent:
        # Within a module of browser tests, Django's check would refuse all that they prepare.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield lent
