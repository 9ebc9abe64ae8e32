"""Ten mails one by one on a phone: a thumb decides each, and the next is in view."""

from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from accounts.models import User
from approvals.models import PendingAction
from tests.browser.conftest import picture
from tests.browser.test_every_page import signed_in
from tests.conftest import Api, Reviewer

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PHONE = {"width": 390, "height": 844}
READ = "body[data-seen]"  # the mail was in view for a second


def states_of(ids: list[str]) -> list[str]:
    return [PendingAction.objects.get(pk=each).status for each in ids]


def test_thumb_decides_one_mail_after_the_other(
    browser: Browser, live_server: LiveServer, alice: User, api: Api, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 600
    ids = [api.propose(subject=f"Mail {n}", body="We come on Thursday. " * 40) for n in range(4)]
    with signed_in(browser, live_server, alice, has_touch=True, viewport=PHONE) as window:
        page = window.new_page()
        page.goto("/")
        page.get_by_role("link", name="Decide one by one").tap()
        approve = page.locator("form[data-action=approve] button")
        for number, key in enumerate(ids):
            page.wait_for_url(f"**/line/{key}/")
            if number == 0:
                approve.tap()  # a second tap of the decision before: it is too early
                expect(page.locator("#said")).to_contain_text("Read it first")
                for each in page.locator(".decide .btn:visible").all():
                    expect(each).to_be_in_viewport(ratio=1)
            if number == 1:
                page.locator("summary", has_text="Reject").tap()
                page.get_by_label("Why?").fill("Not like this")
                page.locator("form[data-action=reject] button").tap()
            elif number == 2:
                # After the rejection the notice still names the mail that was approved.
                expect(page.locator(".toast small")).to_contain_text("Mail 0")
                expect(page.locator(".toast small")).to_be_in_viewport(ratio=1)
                page.get_by_role("link", name="Skip", exact=True).tap()
            else:
                page.locator(READ).wait_for()
                approve.tap()
        expect(page.get_by_role("heading", name="You reached the end")).to_be_visible()
        picture(page, "line-end")
        page.wait_for_load_state("networkidle")
    assert states_of(ids) == ["approved", "rejected", "pending", "approved"]


def test_second_touch_does_not_approve_the_next_mail(
    browser: Browser,
    live_server: LiveServer,
    alice: User,
    api: Api,
    reviewer: Reviewer,
    settings: Any,
) -> None:
    """Not even one that was read before: a slow page may change under the thumb."""
    settings.MAILHUB_UNDO_SECONDS = 600
    ids = [api.propose(subject=f"Mail {n}") for n in range(2)]
    for each in ids:
        reviewer.look(each)
    with signed_in(browser, live_server, alice, has_touch=True, viewport=PHONE) as window:
        page = window.new_page()
        page.goto(f"/line/{ids[0]}/")
        approve = page.locator("form[data-action=approve] button")
        page.locator(READ).wait_for()
        page.clock.install()  # of the next page: its second does not pass
        approve.tap()
        page.wait_for_url(f"**/line/{ids[1]}/")
        approve.tap()
        expect(page.locator("#said")).to_contain_text("Read it first")
        page.clock.run_for(1100)
        page.locator(READ).wait_for()
        assert states_of(ids) == ["approved", "pending"]
        approve.tap()
        expect(page.get_by_role("heading", name="All done")).to_be_visible()
        page.wait_for_load_state("networkidle")
    assert states_of(ids) == ["approved", "approved"]


def test_line_works_by_keys_and_without_scripts(
    browser: Browser, live_server: LiveServer, alice: User, api: Api
) -> None:
    ids = [api.propose(subject=f"Mail {n}") for n in range(4)]
    with signed_in(browser, live_server, alice) as window:
        page = window.new_page()
        page.goto("/line/")
        page.locator(READ).wait_for()
        page.keyboard.press("a")
        page.wait_for_url(f"**/line/{ids[1]}/")
        page.keyboard.press("j")
        page.wait_for_url(f"**/line/{ids[2]}/")
        page.wait_for_load_state("networkidle")
    with signed_in(browser, live_server, alice, java_script_enabled=False) as window:
        page = window.new_page()
        page.goto(f"/line/{ids[2]}/")
        page.locator("form[data-action=approve] button").click()
        page.wait_for_url(f"**/line/{ids[3]}/")
        page.locator("summary", has_text="Reject").click()
        page.locator("form[data-action=reject] button").click()
        expect(page.get_by_role("heading", name="You reached the end")).to_be_visible()
        page.get_by_role("link", name="Start again").click()
        page.wait_for_url(f"**/line/{ids[1]}/")
    assert states_of(ids) == ["approved", "pending", "approved", "rejected"]
