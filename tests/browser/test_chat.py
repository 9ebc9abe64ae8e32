"""The chat in a browser: it streams, its tools are quiet lines, and a proposal is a card that
follows its action.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import PATIENCE_MS, picture
from tests.browser.presses import approve
from tests.browser.test_first_road import signed_in
from tests.support.processes.mailhub import Mailhub
from tests.support.processes.programs import until
from tests.support.servers.model import ModelServer, Says

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.timeout(240)]
expect.set_options(timeout=PATIENCE_MS)
MIRA = "mira@northwind.example"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PROPOSAL = {
    "to": [MIRA],
    "subject": "It is Thursday",
    "body": "Dear Mira, it is Thursday.",
    "confirm": True,
}


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def mailhub(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> Iterator[Mailhub]:
    changes: dict[str, Any] = {
        "AGENT_MODEL": "openai:scripted",
        "OPENAI_BASE_URL": model.url,
        "MAILHUB_UNDO_SECONDS": 0,
    }
    with Mailhub(tmp_path_factory.mktemp("mailhub"), **changes) as running:
        yield running


def pictures(page: Page, name: str) -> None:
    """Take screenshots in both sizes and both color schemes."""
    for width, height in ((1280, 860), (390, 844)):
        for light in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme="light" if light == "light" else "dark")
            wide = page.evaluate(
                "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
            assert not wide, f"{name} is wider than {width}"
            found = Axe().run(page, options={"runOnly": {"type": "tag", "values": RULES}})
            assert found.response["violations"] == [], found.generate_report()
            picture(page, f"{name}-{width}-{light}")


@pytest.mark.long
def test_chat_streams_shows_tools_and_follows_proposals(
    window: BrowserContext, mailhub: Mailhub, model: ModelServer
) -> None:
    page = signed_in(window, mailhub)
    troubles: list[str] = []
    page.on(
        "console",
        lambda message: troubles.append(message.text) if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: troubles.append(str(error)))
    bells: list[str] = []
    page.on(
        "request",
        lambda request: (
            bells.append(request.url) if request.resource_type == "eventsource" else None
        ),
    )
    page.get_by_role("link", name="Assistant", exact=True).click()
    pictures(page, "chat-empty")
    page.set_viewport_size({"width": 1280, "height": 860})

    model.says(
        Says(
            text="Let me look. ",
            calls=(("list_emails", {}), ("read_email", {"message_id": "no such"})),
        ),
        Says(text="<b>Three</b> things, **the first** of them at length.", hold=True),
    )
    page.get_by_label("Ask about your mail").fill("What is new?")
    page.keyboard.press("Enter")
    expect(page.get_by_text("✅ done")).to_be_visible()
    expect(page.get_by_text("⚠️ read_email failed")).to_be_visible()
    # The text is visible while the model still streams, and it is shown as text.
    expect(page.get_by_text("<b>Three</b>")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    model.go_on.set()
    expect(page.get_by_text("at length.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(page.locator(".said strong")).to_have_text("the first")
    expect(page.locator(".said b")).to_have_count(0)
    expect(page.get_by_text("Read a mail (this did not work)")).to_be_visible()
    expect(page.locator(".talk .bad")).to_have_count(0)
    expect(page.get_by_role("link", name="What is new?")).to_be_visible()

    model.says(Says(text="I propose this. ", calls=(("send_email", PROPOSAL),)))
    page.get_by_label("The assistant may").select_option("safeWrite")
    page.get_by_label("Ask about your mail").fill("Tell Mira that it is Thursday")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("heading", name="It is Thursday")).to_be_visible()
    expect(page.get_by_text("Nothing has been sent.")).to_be_visible()
    until(lambda: bells)
    looks: list[str] = []
    page.on(
        "request",
        lambda request: looks.append(request.url) if request.url.endswith("/cards/") else None,
    )
    pictures(page, "chat-held")
    page.set_viewport_size({"width": 1280, "height": 860})

    review = window.new_page()
    href = page.get_by_role("link", name="Review", exact=True).get_attribute("href")
    review.goto(f"{mailhub.url}{href}")
    approve(review)
    until(lambda: len(mailhub.mail(MIRA, "INBOX", "It is Thursday")) == 1)
    review.close()
    expect(page.get_by_role("link", name="View", exact=True)).to_be_visible()
    assert troubles == []
    # Once for each notification, and not every few seconds in between.
    assert 1 <= len(looks) <= 5, looks

    page.goto(f"{mailhub.url}/agent/")
    page.get_by_role("link", name="What is new?").click()
    expect(page.get_by_text("I propose this.")).to_be_visible()
    expect(page.get_by_role("heading", name="It is Thursday")).to_be_visible()
    page.get_by_role("button", name="Delete this conversation").click()
    expect(page.get_by_role("link", name="What is new?")).to_have_count(0)
    assert len(mailhub.mail(MIRA, "INBOX", "It is Thursday")) == 1


@pytest.mark.long
def test_card_without_notifications_is_polled(
    window: BrowserContext, mailhub: Mailhub, model: ModelServer
) -> None:
    page = signed_in(window, mailhub)
    page.route("**/live/*", lambda route: route.abort())
    page.goto(f"{mailhub.url}/agent/")
    model.says(
        Says(text="I propose this. ", calls=(("send_email", PROPOSAL | {"subject": "By looking"}),))
    )
    page.get_by_label("The assistant may").select_option("safeWrite")
    page.get_by_label("Ask about your mail").fill("Tell Mira")
    page.get_by_role("button", name="Ask", exact=True).click()
    href = page.get_by_role("link", name="Review", exact=True).get_attribute("href")
    assert mailhub.person().submit(str(href), "reject").status == 302
    expect(page.get_by_text("rejected")).to_be_visible()


@pytest.mark.long
def test_escape_stops_the_run_on_the_server_too(
    window: BrowserContext, mailhub: Mailhub, model: ModelServer
) -> None:
    page = signed_in(window, mailhub)
    page.goto(f"{mailhub.url}/agent/")
    model.go_on.clear()
    model.left.clear()
    model.says(Says(text="This goes on for a very long time.", hold=True))
    page.get_by_label("Ask about your mail").fill("Go on")
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile("This goes on"))).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Stopped.", exact=True)).to_be_visible()
    assert model.left.wait(20)
