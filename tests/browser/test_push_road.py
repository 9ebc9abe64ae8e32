"""From the button of the page to a push that opens a mail: the browser's own push service is replaced
by one on loopback, whose messages are handed to the service worker.
"""

import json

import pytest
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer
from pytest_httpserver import HTTPServer

from accounts.models import User
from approvals.models import NotificationChannel
from approvals.outbound.notifications.channels.web_push import public_key
from tests.approvals.webhook_listener import httpserver
from tests.browser.conftest import picture
from tests.browser.test_app import CLICK, Pushes, app
from tests.conftest import Api
from tests.support.servers.push_service import PushService

__all__ = ["httpserver"]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
# A subscription of the local push service instead of Google's, which tests cannot reach.
SUBSCRIBED = """
let made = null;
const given = %s;
PushManager.prototype.getSubscription = async () => made;
PushManager.prototype.subscribe = async ({ applicationServerKey }) => {
  if (applicationServerKey !== given.key) throw new Error("another key");
  made = {
    endpoint: given.endpoint,
    toJSON: () => ({ endpoint: given.endpoint, keys: { p256dh: given.p256dh, auth: given.auth } }),
    unsubscribe: async () => { made = null; localStorage.setItem("ended", "yes"); return true; },
  };
  localStorage.setItem("made", "yes");
  return made;
};
if (localStorage.getItem("made") && !localStorage.getItem("ended"))
  PushManager.prototype.subscribe({ applicationServerKey: given.key });
"""


def test_button_turns_on_push_that_opens_the_page(
    browser: Browser, live_server: LiveServer, api: Api, alice: User, httpserver: HTTPServer
) -> None:
    service = PushService(httpserver, server_key=public_key())
    api.propose(subject="A mail that waits")
    with app(browser, live_server, alice) as (page, worker):
        page.add_init_script(SUBSCRIBED % json.dumps(service.subscription))
        page.goto("/notifications/")
        page.get_by_role("button", name="Turn on notifications here").click()
        expect(page.get_by_text("Notifications are on in this browser. They end")).to_be_visible()
        picture(page, "notifications-on")
        channel = NotificationChannel.objects.get(kind="web_push")
        assert channel.label.startswith("Chrome")

        row = page.locator("li", has_text="Chrome")
        row.get_by_role("button", name="Send a test").click()
        expect(page.get_by_text("The test was taken")).to_be_visible()
        (payload,) = service.received
        pushes = Pushes(page)
        pushes.deliver(**payload)
        pushes.until_shown(worker, [payload["title"], payload["body"], payload["tag"]])
        worker.evaluate(CLICK)
        page.wait_for_url(f"**{payload['url']}")

        page.goto("/")
        page.locator("form[data-action=sign-out] button").click(force=True)
        page.wait_for_url("**/sign-in/**")
        assert page.evaluate("localStorage.getItem('ended')") == "yes"
