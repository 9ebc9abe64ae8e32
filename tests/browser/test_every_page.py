"""Every page in a browser: readable for everybody, quiet towards the network, small, and usable without scripts."""

import gzip
import re
import uuid
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Response, expect
from pytest_django.live_server_helper import LiveServer

from accounts.caller import Caller
from accounts.models import Mailbox, User
from approvals import services
from approvals.execution import execute
from approvals.models import PendingAction
from approvals.types import Preview, Proposal, Target
from tests.approvals.kinds import Script, handed_over
from tests.browser.conftest import PATIENCE_MS, Canary
from tests.browser.hostile import HOSTILE
from tests.conftest import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LARGEST = 100_000


@pytest.fixture
def window(browser: Browser, live_server: LiveServer, alice: User) -> Iterator[BrowserContext]:
    with signed_in(browser, live_server, alice) as context:
        yield context


def signed_in(browser: Browser, live_server: LiveServer, person: User, **options: Any) -> BrowserContext:
    client = Client()
    client.force_login(person)
    context = browser.new_context(base_url=live_server.url, reduced_motion="reduce", **options)
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}])
    return context


def unclean(caller: Caller, mailbox: Mailbox, html: str) -> PendingAction:
    """An action whose HTML was never cleaned, as if the cleaning had a hole."""
    source = b"Subject: hostile\r\n\r\n"
    payload = {
        "kind": "mail.send", "from": mailbox.address, "to": ["mira@northwind.example"], "cc": [], "bcc": [],
        "subject": "Hostile", "text": "hostile", "html": html, "attachments": [], "importance": "normal",
        "save_to_sent_items": True, "original": "", "nonce": uuid.uuid4().hex,
        "source_sha256": sha256(source).hexdigest(),
    }  # fmt: skip
    preview = Preview(
        title="Hostile", targets=(Target(address="mira@northwind.example", role="to"),), excerpt="x", fingerprint="x"
    )
    proposal = Proposal(
        kind="mail.send", payload=payload, preview=preview, message_id=f"<{uuid.uuid4().hex}@x>", blobs=(source,)
    )
    return services.propose(
        caller=caller, mailbox=mailbox, tool="send_email", proposal=proposal, key=None, request_digest="x"
    )[0]


def test_row52_hostile_mail_asks_nobody_and_runs_nothing(
    window: BrowserContext, live_server: LiveServer, alice: User, mailbox: Mailbox
) -> None:
    ran: list[Any] = []
    asked: list[str] = []
    window.expose_binding("ran", lambda _, which: ran.append(which))
    window.on("response", lambda answer: asked.append(answer.url))
    page = window.new_page()
    page.on("dialog", lambda dialog: ran.append(dialog.message))
    with Canary() as canary:
        whole = "<p>Begins.</p>" + "\n".join(HOSTILE.values()).replace("AT", canary.url) + "<p>Ends.</p>"
        action = unclean(Caller(user=alice, surface="web"), mailbox, whole)
        page.goto(f"/actions/{action.pk}/", wait_until="load")
        frame = page.frame_locator("iframe.frame")
        expect(frame.get_by_text("Begins.")).to_be_visible()
        frame.get_by_text("a link").click(force=True)
        page.goto(f"/actions/{action.pk}/body/", wait_until="load")
        expect(page.get_by_text("Begins.")).to_be_visible()
        page.wait_for_timeout(300)  # what a refresh or a late script would need

        assert canary.asked == []
        assert ran == []
        assert [url for url in asked if not url.startswith((live_server.url, "data:"))] == []
        # The same on a page without our policy asks and runs: neither ear is deaf.
        deaf = window.new_page()
        deaf.set_content(HOSTILE["handlers"] + HOSTILE["tracking pixel"].replace("AT", canary.url))
        deaf.wait_for_timeout(200)
        assert ran
        assert canary.asked == ["/pixel.gif"]


@pytest.mark.long
def test_every_page_passes_axe_in_both_themes_and_widths_and_is_small(
    window: BrowserContext, api: Api, alice: User, mailbox: Mailbox, bob: User, script: Script, settings: Any
) -> None:
    settings.DEBUG = True
    settings.MAILHUB_UNDO_SECONDS = 600
    text = api.propose(subject="Plain", bcc=["hidden@archive.example"])
    html = api.propose(subject="HTML", body="<h1>Hello</h1><p>there</p>", body_type="html")
    many = api.propose(subject="😀" * 255, to=[f"guest{n}@domain{n % 40}.example" for n in range(500)])
    long_ = api.propose(subject="<script>alert(1)</script>", body="<b>word</b> עברית " * 5000)
    edited = PendingAction.objects.get(pk=api.propose(subject="Edited"))
    services.edit(
        action_id=edited.pk, person=bob, digest=edited.digest, revision=1, changes={"subject": "Edited twice"}
    )
    leaving = api.propose(subject="Leaving")
    unknown = api.propose(subject="Unknown")
    for each in (leaving, unknown):
        action = PendingAction.objects.get(pk=each)
        services.approve(action_id=action.pk, person=alice, digest=action.digest, revision=1)
    PendingAction.objects.filter(pk=unknown).update(not_before=None, undo_until=None)
    script.instead = handed_over
    execute(PendingAction.objects.get(pk=unknown).pk, worker="test")
    assert PendingAction.objects.get(pk=unknown).status == "unknown"
    rejected = api.propose(subject="Rejected")
    services.reject(action_id=PendingAction.objects.get(pk=rejected).pk, person=alice, note="Not like this")
    paths = [
        "/", "/?tab=leaving", "/?q=nothing&warned=1", "/?tab=unknown", f"/actions/{text}/", f"/actions/{html}/",
        f"/actions/{many}/", f"/actions/{long_}/?view=source", f"/actions/{edited.pk}/?view=changes",
        f"/actions/{rejected}/?view=history", f"/actions/{leaving}/", f"/actions/{unknown}/", f"/actions/{text}/edit/",
        "/keyboard/", "/compose/", "/drafts/", "/mailboxes/", "/styleguide/",
    ]  # fmt: skip
    page = window.new_page()
    page.set_viewport_size({"width": 1280, "height": 860})
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))  # it sets an attribute on what it is given
    known: dict[str, int] = {}
    found, wide, sizes = [], [], {}
    for path in paths:
        answers.clear()
        page.goto(path, wait_until="load")
        # The message itself, in its frame, and streams aside.
        parts = {answer.url for answer in answers if answer.ok and not re.search("/body/|/live/", answer.url)}
        for url in parts - known.keys():
            known[url] = len(gzip.compress(window.request.get(url).body()))
        sizes[path] = sum(known[url] for url in parts)
        for theme, width in (("light", 1280), ("dark", 390)):
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": 860})
            results = Axe().run(page, options={"resultTypes": ["violations"], "iframes": False}).response
            found += [
                (path, theme, width, each["id"], [node["html"][:160] for node in each["nodes"]][:3])
                for each in results["violations"]
            ]
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append((path, width))
        page.set_viewport_size({"width": 1280, "height": 860})
    assert found == []
    assert wide == [], "a page is wider than its window"
    assert max(sizes.values()) < LARGEST, sizes


def test_without_scripts_everything_that_decides_still_works(
    browser: Browser, live_server: LiveServer, api: Api, alice: User, mailbox: Mailbox, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 600
    ids = {
        name: api.propose(subject=name) for name in ("approve", "reject", "edit", "ask_back", "bulk one", "bulk two")
    }
    with signed_in(browser, live_server, alice, java_script_enabled=False) as window:
        page = window.new_page()
        page.goto(f"/actions/{ids['approve']}/")
        page.locator("form[data-action=approve] button").click()
        page.locator("form[data-action=undo] button").first.click()
        expect(page.locator("form[data-action=approve]")).to_have_count(1)

        page.goto(f"/actions/{ids['reject']}/")
        page.get_by_text("Reject…").click()
        page.get_by_label("Why?").fill("Not like this")
        page.locator("form[data-action=reject] button").click()
        expect(page.get_by_text("“Not like this”")).to_be_visible()

        page.goto(f"/actions/{ids['edit']}/")
        page.locator("form[data-action=edit] button").click()
        page.get_by_label("Subject").fill("edited by hand")
        page.locator("form[data-action=edit] button").click()
        expect(page.locator("ins", has_text="by hand")).to_be_visible()

        page.goto(f"/actions/{ids['ask_back']}/")
        page.locator("summary", has_text="Ask back").click()
        page.get_by_label("What should be different?").fill("Shorter, please")
        page.locator("form[data-action=ask_back] button").click()
        expect(page.get_by_text("Shorter, please").first).to_be_visible()

        page.goto("/?q=bulk")
        for box in page.locator(".pick input").all():
            box.check()
        page.locator("form[data-action=bulk] button").click()
        expect(page.get_by_text("mira@northwind.example")).to_have_count(2)
        page.locator("form[data-action=bulk-approve] button").click()
        expect(page.get_by_role("heading", name="2 mails approved")).to_be_visible()
    states = {name: PendingAction.objects.get(pk=key).status for name, key in ids.items()}
    assert states == {
        "approve": "pending", "reject": "rejected", "edit": "pending", "ask_back": "pending",
        "bulk one": "approved", "bulk two": "approved",
    }  # fmt: skip
    assert PendingAction.objects.get(pk=ids["edit"]).current.preview["title"] == "edited by hand"
