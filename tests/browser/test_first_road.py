"""The send path in a browser: sign in, review, approve, see it sent."""

import re
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PATIENCE_MS
from tests.browser.presses import approve
from tests.support.processes.mailhub import Mailhub

pytestmark = [pytest.mark.browser, pytest.mark.process]
MIRA = "mira@northwind.example"


@pytest.fixture(
    params=[
        pytest.param(True, id="with JavaScript"),
        # test_every_page.py decides without scripts.
        pytest.param(False, id="without JavaScript", marks=pytest.mark.long),
    ]
)
def window(browser: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    context = browser.new_context(java_script_enabled=request.param)
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


def signed_in(window: BrowserContext, mailhub: Mailhub) -> Page:
    page = window.new_page()
    page.goto(mailhub.new_link())
    page.locator("form[data-action=sign-in] button").click()
    page.wait_for_url(re.compile(r"/(welcome/)?$"))  # the first sign-in leads to Welcome
    page.goto(f"{mailhub.url}/")
    return page


def test_person_sees_approves_and_follows_a_waiting_mail(
    window: BrowserContext, mailhub: Mailhub
) -> None:
    subject, body = f"Offer {uuid.uuid4().hex}", f"Dear Mira, {uuid.uuid4().hex}"
    action = mailhub.propose(subject, body=body, bcc=["charles@lovelace.example"])
    page = signed_in(window, mailhub)
    page.get_by_role("link", name=subject).click()
    page.wait_for_url(re.compile(action["id"]))
    for shown in (MIRA, "charles@lovelace.example", subject, body):
        expect(page.get_by_text(shown).first).to_be_visible()
    expect(page.get_by_text("northwind.example is not one of your domains")).to_be_visible()
    assert mailhub.mail(MIRA, "INBOX", subject) == []

    approve(page)
    expect(page.locator("form[data-action=undo] button")).to_be_visible()
    expect(page.locator("form[data-action=approve]")).to_have_count(0)

    # The page follows by itself.
    expect(page.get_by_role("heading", name="Sent", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    assert mailhub.action(action["id"])["state"] == "succeeded"
    assert len(mailhub.mail(MIRA, "INBOX", subject)) == 1
    page.goto(mailhub.url)
    expect(page.get_by_role("link", name=subject)).to_have_count(0)
