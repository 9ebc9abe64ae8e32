"""The queue on a slow phone: a fourth of this machine's CPU, 1.6 Mbit a second, 150 ms away.

BENCH_QUICK=1 writes nothing. Collected only by name: a test must not measure time.
"""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession

from tests.approvals.queues.conftest import Site
from tests.bench.page import Measured, report
from tests.bench.served import ours
from tests.support.processes.programs import manage
from tests.support.processes.template import KEYS

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.postgres_only,
    pytest.mark.parametrize("kind", ["database"]),
]
WAITING = 30
VIEWPORT: Any = {"width": 390, "height": 844}
LINE = {
    "offline": False,
    "latency": 150,
    "downloadThroughput": 1_600_000 / 8,
    "uploadThroughput": 750_000 / 8,
}
SLOWER = 4
PAINTED_MS, MOST_KB, MOST_REQUESTS = 1_500, 60, 3
PAINTED = """() => Math.max(...performance.getEntriesByType("paint").map(each => each.startTime))"""


class Wire:
    """Everything that a page asks the server for."""

    def __init__(self, session: CDPSession) -> None:
        self.requests = 0
        self.bytes = 0.0
        session.on("Network.responseReceived", self._count)
        session.on("Network.loadingFinished", self._add)

    def _count(self, event: dict[str, Any]) -> None:
        answer = event["response"]
        # A kept copy and the page's own icons in its text make no request.
        if not answer.get("fromDiskCache") and answer["url"].startswith("http"):
            self.requests += 1

    def _add(self, event: dict[str, Any]) -> None:
        self.bytes += event["encodedDataLength"]


@pytest.mark.goal("P3")
def test_first_pages_on_a_slow_phone(site: Site, browser: Browser, tmp_path: Path) -> None:
    static = {"MAILHUB_STATIC_ROOT": str(tmp_path / "static")}
    assert manage(tmp_path, "collectstatic", "--noinput", **KEYS, **static).returncode == 0
    waiting = [
        site.api.propose(subject=f"Order {number} is on its way") for number in range(WAITING)
    ]
    cookies = {name: each.value for name, each in site.reviewer.client.cookies.items()}
    with ours(site, workers=2, **static) as web:
        address = f"http://127.0.0.1:{web.port}"
        window = browser.new_context(viewport=VIEWPORT, is_mobile=True, has_touch=True)
        window.add_cookies(
            [{"name": name, "value": value, "url": address} for name, value in cookies.items()]
        )
        page = window.new_page()
        session = window.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.emulateNetworkConditions", LINE)
        session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        first = Wire(session)
        page.goto(f"{address}/", wait_until="load")
        assert page.locator("[id^=row-]").count() >= WAITING
        painted, kilobytes = page.evaluate(PAINTED), first.bytes / 1000
        second = Wire(session)
        page.goto(f"{address}/actions/{waiting[0]}/", wait_until="load")
        requests = second.requests
        window.close()
    report(
        "P3",
        Measured(
            what=f"first page, a queue of {WAITING}, on a slow phone: painted",
            measured=f"{painted:.0f} ms",
            limit=f"{PAINTED_MS:,} ms",
            met=painted <= PAINTED_MS,
        ),
        Measured(
            what="the same: bytes over the wire",
            measured=f"{kilobytes:.0f} KB",
            limit=f"{MOST_KB} KB",
            met=kilobytes <= MOST_KB,
        ),
        Measured(
            what="requests of the second page, a review",
            measured=f"{requests}",
            limit=f"{MOST_REQUESTS}",
            met=requests <= MOST_REQUESTS,
        ),
    )
