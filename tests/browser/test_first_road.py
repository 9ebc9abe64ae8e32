"""The send path in a browser: sign in, review, approve, see it sent.

And mail that tries to call home.
"""

import re
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PATIENCE_MS, Canary
from tests.browser.presses import approve
from tests.support.processes.mailhub import Mailhub
from tests.support.processes.programs import until

pytestmark = [pytest.mark.browser, pytest.mark.process]
MIRA = "mira@northwind.example"


@pytest.fixture(params=[True, False], ids=["with JavaScript", "without JavaScript"])
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


def test_preview_of_hostile_html_contacts_nobody(browser: Browser, mailhub: Mailhub) -> None:
    with Canary() as canary, browser.new_context() as window:
        at = canary.url
        hostile = f"""
            <p style="color: #123456">Looks harmless.</p>
            <img src="{at}/img.png" srcset="{at}/srcset.png 2x"><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
            <p style="background: url({at}/style.png)">styled</p><table background="{at}/table.png"><tr><td>t</table>
            <style>@import "{at}/import.css"; p {{ background: url({at}/sheet.png) }}</style>
            <link rel="stylesheet" href="{at}/link.css"><base href="{at}/">
            <script src="{at}/script.js"></script><script>top.location = "{at}/top"</script>
            <script>new Image().src = "{at}/js"</script><img src="{at}/error.png" onerror="fetch('{at}/onerror')">
            <svg onload="fetch('{at}/svg')"><image href="{at}/image"/></svg>
            <form action="{at}/form"><button>Go</button></form><meta http-equiv="refresh" content="0; url={at}/refresh">
            <iframe src="{at}/frame"></iframe><object data="{at}/object"></object>
            <video poster="{at}/poster" src="{at}/video"></video>
            <a href="{at}/link" ping="{at}/ping">link</a><p>The end.</p>"""
        action = mailhub.propose(f"Hostile {uuid.uuid4().hex}", body=hostile, body_type="html")
        page = signed_in(window, mailhub)
        page.goto(action["review_url"], wait_until="networkidle")
        frame = page.frame_locator("iframe")
        expect(frame.get_by_text("Looks harmless.")).to_be_visible()
        expect(frame.get_by_text("The end.")).to_be_visible()
        expect(page.get_by_text("Parts were removed.", exact=True)).to_be_visible()
        for view in ("text", "source", "history"):
            page.goto(f"{action['review_url']}?view={view}")
        page.goto(f"{action['review_url']}body/", wait_until="networkidle")
        expect(page.get_by_text("Looks harmless.")).to_be_visible()

        assert canary.asked == []
        # On a page without our policy the same picture is requested: the canary works.
        window.new_page().set_content(f'<img src="{at}/img.png">')
        until(lambda: canary.asked == ["/img.png"])
