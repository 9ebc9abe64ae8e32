"""A day without a mouse: keys do everything that a page offers, and do it to the intended mail."""

import re
from typing import Any
from uuid import UUID

import pytest
from django.db.models.functions import Now
from playwright.sync_api import Browser, Locator, Page, expect
from pytest_django.live_server_helper import LiveServer

from accounts.models import User
from approvals.gate.execute import execute
from approvals.models import PendingAction
from tests.approvals.conftest import approve
from tests.approvals.kinds import Script, handed_over
from tests.browser.presses import read
from tests.browser.test_every_page import signed_in
from tests.conftest import Api

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
]
MOST_TABS = 60


def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until the element has the focus, as a person without a mouse does."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{MOST_TABS} times Tab do not lead to {wanted}")


def choose(page: Page, words: str) -> None:
    """Choose the first match of the palette."""
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    page.keyboard.press("Enter")


def written(page: Page) -> None:
    """Fill in the form for a new mail, beginning in the focused first field."""
    page.keyboard.type("mira@northwind.example")
    for label, text in (("Subject", "Written by keys"), ("Text", "Hello Mira.")):
        tab_to(page, page.get_by_label(label))
        page.keyboard.type(text)


def arrived(page: Page, sign: Locator) -> None:
    """Wait until the page that shows this element is loaded and handles keys."""
    expect(sign).to_be_visible()
    page.wait_for_load_state()


def state_of(action_id: str | UUID) -> str:
    return str(PendingAction.objects.get(pk=action_id).status)


def test_keyboard_is_enough_to_write_decide_undo_and_rule(
    browser: Browser, live_server: LiveServer, api: Api, alice: User, script: Script, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 600
    script.instead = handed_over
    lost = [api.propose(subject=f"Lost {n}") for n in (1, 2)]
    for each in lost:
        approve(each, alice)
        PendingAction.objects.filter(pk=each).update(not_before=Now(), undo_until=None)
        execute(PendingAction.objects.get(pk=each).pk, worker="test")
    with signed_in(browser, live_server, alice, viewport={"width": 1280, "height": 860}) as window:
        mouse: list[str] = []
        window.expose_binding("moused", lambda _, what: mouse.append(what))
        window.add_init_script(
            "for (const it of ['pointerdown', 'mousedown']) addEventListener(it, () => moused(it))"
        )
        window.clock.install()
        page = window.new_page()
        page.goto("/")

        # Create and discard a draft; then write a mail, approve it, and undo the approval.
        choose(page, "write")
        page.wait_for_url("**/compose/")
        written(page)
        tab_to(page, page.get_by_role("button", name="Save as draft"))
        page.keyboard.press("Enter")
        page.wait_for_url("**/drafts/**")
        tab_to(page, page.locator("summary", has_text="Delete…"))
        page.keyboard.press("Enter")
        tab_to(page, page.get_by_role("button", name="Delete this draft"))
        page.keyboard.press("Enter")
        arrived(page, page.get_by_role("heading", name="No drafts"))
        choose(page, "write")
        page.wait_for_url("**/compose/")
        written(page)
        page.keyboard.press("Control+Enter")
        page.wait_for_url(re.compile("/actions/"))
        mine = PendingAction.objects.get(status="pending").pk
        read(page)
        page.keyboard.press("a")
        arrived(page, page.get_by_role("heading", name="Approved"))
        page.keyboard.press("z")
        arrived(page, page.locator("form[data-action=approve]"))
        assert state_of(mine) == "pending"

        # The queue: down and up, select two, and of two that are about to be sent undo only the
        # intended one.
        alike = [api.propose(subject=f"Alike {n}") for n in (1, 2)]
        page.keyboard.press("u")
        page.wait_for_url(f"{live_server.url}/")
        at = page.locator("#rows > li.at")
        expect(at).to_have_attribute("data-id", str(mine))
        for key, expected in (
            ("j", alike[0]),
            ("j", alike[1]),
            ("j", alike[1]),
            ("k", alike[0]),
            ("x", alike[0]),
        ):
            page.keyboard.press(key)
            expect(at).to_have_attribute("data-id", expected)
        for key, each in (("j", alike[1]), ("k", alike[0])):
            # Only a mail that was in view for a second is approved together with others.
            with page.expect_response(f"**/actions/{each}/presence/"):
                page.keyboard.press(key)
                expect(page.locator(f"#pane [data-action-id='{each}']")).to_be_visible()
                read(page)
        page.keyboard.press("j")
        expect(at).to_have_attribute("data-id", alike[1])
        page.keyboard.press("x")
        choose(page, "approve the selected")
        page.keyboard.press("Enter")
        page.wait_for_url("**/bulk/")
        tab_to(page, page.get_by_role("button", name="Approve and send all 2"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="2 mails approved")).to_be_visible()
        page.goto("/?tab=leaving")
        page.keyboard.press("j")
        page.keyboard.press("j")
        expect(at).to_have_attribute("data-id", alike[1])
        page.keyboard.press("z")
        expect(page.locator(f"#row-{alike[1]}")).to_have_count(0)
        arrived(page, page.locator(f"#row-{alike[0]}"))
        assert [state_of(each) for each in alike] == ["approved", "pending"]

        # Unknown: one ruling by the palette, the other by Tab.
        for each, ruling, state, title in (
            (lost[0], "It was sent", "succeeded", "Sent"),
            (lost[1], "It was not sent", "approved", "Approved"),
        ):
            choose(page, "waiting")
            page.wait_for_url(f"{live_server.url}/")
            choose(page, "unknown")
            page.wait_for_url("**/?tab=unknown**")
            page.keyboard.press("j")
            page.keyboard.press("Enter")
            page.wait_for_url(re.compile(each))
            if ruling == "It was sent":
                page.keyboard.press("Control+k")
                page.keyboard.type("it was")
                expect(page.locator("#palette li")).to_have_count(3)  # and the search
                for key in ("ArrowDown", "ArrowUp", "Enter"):
                    page.keyboard.press(key)
            else:
                tab_to(page, page.get_by_role("button", name=ruling))
            page.keyboard.press("Enter")
            arrived(page, page.get_by_role("heading", name=title))
            assert state_of(each) == state
        assert mouse == []
        # No presence request may run while the database is emptied.
        page.wait_for_load_state("networkidle")
        page.goto("/keyboard/", wait_until="networkidle")
