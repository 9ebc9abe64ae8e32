"""An open page shows new comments, and keeps what its person has typed."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from accounts.models import User
from approvals.models import PendingAction
from approvals.pages import discussion
from tests.approvals.conftest import approve
from tests.browser.test_every_page import signed_in
from tests.conftest import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_open_page_shows_a_new_comment(
    browser: Browser, live_server: LiveServer, api: Api, alice: User, bob: User
) -> None:
    action = PendingAction.objects.get(pk=api.propose())
    with signed_in(browser, live_server, alice) as window:
        page = window.new_page()
        page.goto(f"/actions/{action.pk}/", wait_until="networkidle")
        page.fill("#comment-text", "I am typing")
        discussion.add_comment(action=action, person=bob, text="<b>Is the date right?</b>")
        # As the live stream does; the test server has none, so the page would look in ten seconds.
        page.evaluate("document.body.dispatchEvent(new Event('rung'))")
        expect(page.locator(".comments li")).to_contain_text("<b>Is the date right?</b>")
        expect(page.locator("#comment-text")).to_have_value("I am typing")
        page.wait_for_load_state("networkidle")


def test_page_that_loads_itself_again_keeps_a_comment(
    browser: Browser, live_server: LiveServer, api: Api, alice: User, bob: User
) -> None:
    later = (timezone.now() + timedelta(days=2)).isoformat()
    action = approve(api.propose(send_at=later), alice)
    with signed_in(browser, live_server, bob) as window:
        page = window.new_page()
        page.clock.install()
        page.goto(f"/actions/{action.pk}/", wait_until="networkidle")
        page.fill("#comment-text", "I am typing")
        page.evaluate("document.body.dataset.before = 'yes'")
        page.clock.run_for(61_000)
        expect(page.locator("#comment-text")).to_have_value("I am typing")
        page.fill("#comment-text", "")
        page.clock.run_for(61_000)
        expect(page.locator("body[data-before]")).to_have_count(0)
        page.wait_for_load_state("networkidle")
