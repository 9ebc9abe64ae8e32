"""mailhub as an app in Chromium: its service worker, push messages, and no connection."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Worker, expect
from pytest_django.live_server_helper import LiveServer

from accounts.models import User
from approvals.models import PendingAction
from mailhub.asgi import application
from tests.browser.conftest import picture
from tests.browser.test_every_page import signed_in
from tests.conformance.served import served
from tests.conftest import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
KEPT = """async () => {
  const found = [];
  for (const name of await caches.keys())
    for (const each of await (await caches.open(name)).keys()) found.push(new URL(each.url).pathname);
  return found.sort();
}"""
SHOWN = "async () => (await registration.getNotifications()).map((each) => [each.title, each.body, each.tag])"
CLICK = """async () => {
  const [notification] = await registration.getNotifications();
  dispatchEvent(new NotificationEvent("notificationclick", { notification }));
}"""


@contextmanager
def app(browser: Browser, server: Any, person: User) -> Iterator[tuple[Page, Worker]]:
    """Yield the queue of a person, with the service worker behind it."""
    with signed_in(
        browser, server, person, service_workers="allow", permissions=["notifications"]
    ) as window:
        page = window.new_page()
        with window.expect_event("serviceworker") as started:
            page.goto("/")
        page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        yield page, started.value


class Pushes:
    """The push service, as the browser sees it."""

    def __init__(self, page: Page) -> None:
        self.devtools = page.context.new_cdp_session(page)
        self.origin = page.evaluate("location.origin")
        found: list[dict[str, Any]] = []
        self.devtools.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda each: found.extend(each["registrations"]),
        )
        self.devtools.send("ServiceWorker.enable")
        while not found:
            page.wait_for_timeout(20)
        self.registration = found[0]["registrationId"]
        self.page = page
        self.delivered: list[dict[str, Any]] = []

    def deliver(self, **payload: Any) -> None:
        self.delivered.append(payload)
        self._send(payload)

    def until_shown(self, worker: Worker, *wanted: list[str]) -> None:
        """Wait for exactly these notifications.

        A push may be lost on its way to a busy browser. As a push service does, send it again then;
        a second one with its tag changes nothing.
        """
        for attempt in range(1500):  # 30 seconds
            shown = sorted(worker.evaluate(SHOWN))
            if shown == sorted(wanted):
                break
            if attempt % 500 == 499:
                for payload in self.delivered:
                    self._send(payload)
            self.page.wait_for_timeout(20)
        assert shown == sorted(wanted)
        self.delivered.clear()

    def _send(self, payload: dict[str, Any]) -> None:
        self.devtools.send(
            "ServiceWorker.deliverPushMessage",
            {
                "origin": self.origin,
                "registrationId": self.registration,
                "data": json.dumps(payload),
            },
        )


def test_push_is_shown_opens_the_action_and_is_withdrawn(
    browser: Browser, live_server: LiveServer, api: Api, alice: User
) -> None:
    action = api.propose(subject="Delivery by push")
    path = f"/actions/{action}/"
    first, second = ["1 mail waits", "Delivery by push", "one"], ["Another", "", "two"]
    with app(browser, live_server, alice) as (page, worker):
        pushes = Pushes(page)
        say = {"tag": "one", "title": first[0], "body": first[1], "url": path, "lang": "en"}
        pushes.deliver(**say, badge=1)
        pushes.deliver(**say, badge=1)  # the same tag replaces it
        pushes.deliver(tag="two", title="Another", body="", url="/", lang="en", badge=2)
        pushes.until_shown(worker, first, second)

        pushes.deliver(close="two", badge=1)
        pushes.until_shown(worker, first)

        worker.evaluate(CLICK)
        page.wait_for_url(f"**{path}")
        expect(page.get_by_text("Delivery by push").first).to_be_visible()
        pushes.until_shown(worker)
        page.wait_for_load_state("networkidle")
    assert PendingAction.objects.get(pk=action).status == "pending"  # a click only shows


def test_push_leads_to_no_other_site(
    browser: Browser, live_server: LiveServer, alice: User
) -> None:
    with app(browser, live_server, alice) as (page, worker):
        asked: list[str] = []
        page.context.on("request", lambda request: asked.append(request.url))
        pushes, say = Pushes(page), {"title": "Away", "body": "", "lang": "en", "badge": 0}
        for tag, url in (("x", "https://evil.example/"), ("y", "/mailboxes/")):
            pushes.deliver(**say, tag=tag, url=url)
            pushes.until_shown(worker, ["Away", "", tag])
            worker.evaluate(CLICK)
            pushes.until_shown(worker)
        page.wait_for_url("**/mailboxes/")
        page.wait_for_load_state("networkidle")
        assert not [url for url in asked if "evil.example" in url]
        assert len(page.context.pages) == 1


def test_without_a_connection_the_app_says_so_and_keeps_no_mail(
    browser: Browser, api: Api, alice: User
) -> None:
    action = api.propose(subject="A subject of nobody else")
    with ExitStack() as window:
        with served(application) as url:
            server = type("Server", (), {"url": url})
            page, worker = window.enter_context(app(browser, server, alice))
            page.goto(f"/actions/{action}/")
            page.goto("/")  # its stream stays open, so the network is never idle
            assert worker.evaluate(KEPT) == [
                "/offline/",
                "/static/mailhub/favicon.svg",
                "/static/mailhub/people.css",
                "/static/mailhub/phone.css",
                "/static/mailhub/style.css",
            ]
            page.goto("about:blank")  # which ends its stream
        page.goto(f"/actions/{action}/")
        expect(page.get_by_role("heading", name="No connection")).to_be_visible()
        assert "A subject of nobody" not in page.content()
        assert (
            page.evaluate("getComputedStyle(document.querySelector('.btn')).borderRadius") != "0px"
        )
        picture(page, "offline")


def test_notification_has_no_button_that_could_decide() -> None:
    source = (Path(__file__).parents[2] / "mailhub/static/mailhub/app/worker.js").read_text()
    for word in ("actions:", "event.action", "POST", "approve", "reject", "csrf"):
        assert word not in source
