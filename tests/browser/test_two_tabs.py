"""Two tabs of one person: the older one shows what happened before it can approve."""

from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from accounts.models import User
from approvals.models import PendingAction
from tests.browser.presses import approve
from tests.browser.test_every_page import signed_in
from tests.conftest import Api

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True),
]


def test_older_tab_approves_only_after_a_new_look(
    browser: Browser, live_server: LiveServer, api: Api, alice: User, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 600
    action_id = api.propose()
    # Without scripts, which would tell the older tab at once.
    with signed_in(browser, live_server, alice, java_script_enabled=False) as window:
        older, newer = window.new_page(), window.new_page()
        for tab in (older, newer):
            tab.goto(f"/actions/{action_id}/")
        approve(newer)
        newer.locator("form[data-action=undo] button").first.click()

        approve(older)

        expect(older.get_by_text("This has changed since you opened it.")).to_be_visible()
        expect(older.get_by_text("Alice undid an approval of this.").first).to_be_visible()
        assert PendingAction.objects.get().status == "pending"
        approve(older)
        expect(older.locator("form[data-action=undo] button").first).to_be_visible()
    assert PendingAction.objects.get().status == "approved"
