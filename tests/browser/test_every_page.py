"""Every page in a browser: accessible, no foreign requests, small, and usable without scripts."""

import gzip
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Response, expect
from pytest_django.live_server_helper import LiveServer

from accounts.access.caller import Caller
from accounts.models import Mailbox, User
from approvals.models import PendingAction
from tests.approvals.kinds import Script
from tests.browser.conftest import PATIENCE_MS, Canary
from tests.browser.hostile import HOSTILE
from tests.browser.pages import View, Who, furnish
from tests.browser.presses import approve
from tests.conftest import Api
from tests.support.people.browser import browser as browser_of
from tests.support.servers.memory import MemoryServer
from tests.support.stored import store_mail

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LARGEST = 100_000
# Only the form that edits HTML loads the editor, 173 KB of a package.
EDITOR, WITH_EDITOR = "edit (alice)", 250_000
# The long run checks all pages, in so many parts.
PARTS = 6
LOOKS: list[tuple[Any, int]] = [("light", 1280), ("dark", 360), ("light", 360), ("dark", 1280)]
# One page of each class, in one look; each look has pages with few and with many controls.
SAMPLE: dict[str, tuple[Any, int]] = {
    "/? (alice)": LOOKS[0],  # the queue
    "risky (alice)": LOOKS[2],  # a review with warnings and a decision
    "unknown (alice)": LOOKS[3],  # a review with another question
    "frame (alice)": LOOKS[0],  # the text of a mail
    "rules that nobody can keep (alice)": LOOKS[2],  # a form with errors
    "what a webhook was told (alice)": LOOKS[1],  # a table
    "/agent/ (alice)": LOOKS[3],  # the chat
    "/sign-in/ (nobody)": LOOKS[1],  # a page without navigation
}
# The controls of a page; Tab reaches one of a group of radio buttons. A row that changes meanwhile is drawn again, so
# controls with the same text count as one.
REACHED = """() => {
  window.reached = new Set();
  document.addEventListener("focusin", (event) => window.reached.add(event.target).add(event.target.outerHTML));
  window.addEventListener("blur", () => window.reached.add(document.activeElement));  // into a frame
  window.missed = () => window.controls().filter((each) => !reached.has(each) && !reached.has(each.outerHTML))
    .map((each) => each.outerHTML.slice(0, 160));
  window.controls = () => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, iframe")]
    .filter((each) => !each.disabled && each.type !== "radio" && each.checkVisibility({ visibilityProperty: true }));
}"""


def chosen(views: list[View], part: int | None) -> list[View]:
    """Return one part of the pages, or the sample of the daily run."""
    if part is not None:
        return views[part::PARTS]
    found = [view for view in views if str(view) in SAMPLE]
    assert {str(view) for view in found} == set(SAMPLE), "a page of the sample has another name"
    return found


@pytest.fixture
def window(browser: Browser, live_server: LiveServer, alice: User) -> Iterator[BrowserContext]:
    with signed_in(browser, live_server, alice) as context:
        yield context


def signed_in(
    browser: Browser, live_server: LiveServer, person: User, *, fresh: bool = True, **options: Any
) -> BrowserContext:
    client = browser_of(person, fresh=fresh)
    # A service worker goes on loading while the database is emptied.
    options = {"service_workers": "block", "reduced_motion": "reduce", **options}
    context = browser.new_context(base_url=live_server.url, **options)
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies(
        [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}]
    )
    return context


@contextmanager
def windows(
    browser: Browser, live_server: LiveServer, **options: Any
) -> Iterator[Callable[[Who], BrowserContext]]:
    """Yield a function that returns the window of a user, and opens it at first use."""
    open_ones: dict[Who, BrowserContext] = {}
    with ExitStack() as stack:

        def window_of(who: Who) -> BrowserContext:
            if who not in open_ones:
                name, _, long_ago = who.partition(", ")
                context = (
                    browser.new_context(
                        base_url=live_server.url, reduced_motion="reduce", **options
                    )
                    if name == "nobody"
                    else signed_in(
                        browser,
                        live_server,
                        User.objects.get(email__startswith=f"{name}@"),
                        fresh=not long_ago,
                        **options,
                    )
                )
                context.set_default_timeout(PATIENCE_MS)
                open_ones[who] = stack.enter_context(context)
            return open_ones[who]

        yield window_of


def opened(window: BrowserContext, view: View) -> tuple[Page, int]:
    """Return the page as its user sees it, and its compressed bytes without frame and streams."""
    page = window.new_page()
    page.set_viewport_size({"width": 1280, "height": 860})
    answers: list[Response] = []
    # It sets an attribute on the element that it is given.
    page.on("response", lambda answer: answers.append(answer))
    page.goto(view.address, wait_until="load")
    parts = {
        answer.url for answer in answers if answer.ok and not re.search("/body/|/live/", answer.url)
    }
    size = sum(len(gzip.compress(window.request.get(url).body())) for url in parts)
    view.then(page)
    if "/actions/" in page.url:
        # No presence request may run while the database is emptied.
        page.wait_for_load_state("networkidle")
    expect(page.locator("[aria-busy=true], .htmx-request")).to_have_count(0)
    return page, size


def barriers(page: Page) -> list[tuple[str, list[str]]]:
    violations = (
        Axe()
        .run(page, options={"resultTypes": ["violations"], "iframes": False})
        .response["violations"]
    )
    return [(each["id"], [node["html"][:160] for node in each["nodes"]][:3]) for each in violations]


def out_of_reach(page: Page) -> list[str]:
    """Return the controls that Tab never reaches."""
    page.set_viewport_size({"width": 1280, "height": 860})
    page.evaluate(REACHED)
    # From the top, wherever the page or an earlier step has put the focus.
    page.evaluate("() => { window.controls()[0]?.focus(); }")
    pressed = 0
    while pressed < page.evaluate("window.controls().length") + 10:
        # The message of the focused row is fetched and shown beside the list.
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        page.keyboard.press("Tab")
        pressed += 1
    missed: list[str] = page.evaluate("window.missed()")
    return missed


def picture(page: Page, view: View, theme: str, width: int) -> None:
    """Save a screenshot for people if MAILHUB_PICTURES names a folder."""
    if folder := os.environ.get("MAILHUB_PICTURES"):
        name = re.sub(r"[^a-z0-9]+", "-", re.sub(r"[0-9a-f-]{36}", "", str(view))).strip("-")
        page.screenshot(path=Path(folder) / f"{name}-{theme}-{width}.png", full_page=True)


@pytest.mark.fault(52)
def test_hostile_mail_contacts_nobody_and_runs_nothing(
    window: BrowserContext, live_server: LiveServer, alice: User, mailbox: Mailbox
) -> None:
    ran: list[Any] = []
    asked: list[str] = []
    window.expose_binding("ran", lambda _, which: ran.append(which))
    window.on("response", lambda answer: asked.append(answer.url))
    page = window.new_page()
    page.on("dialog", lambda dialog: ran.append(dialog.message))
    with Canary() as canary:
        whole = (
            "<p>Begins.</p>"
            + "\n".join(HOSTILE.values()).replace("AT", canary.url)
            + "<p>Ends.</p>"
        )
        # As if the sanitizer had a bug: this HTML was never cleaned.
        action = store_mail(Caller(user=alice, surface="web"), mailbox, html=whole)
        page.goto(f"/actions/{action.pk}/", wait_until="load")
        frame = page.frame_locator("iframe.frame")
        expect(frame.get_by_text("Begins.")).to_be_visible()
        frame.get_by_text("a link").click(force=True)
        page.goto(f"/actions/{action.pk}/body/", wait_until="load")
        expect(page.get_by_text("Begins.")).to_be_visible()
        page.wait_for_timeout(300)  # enough time for a refresh or a late script

        assert canary.asked == []
        assert ran == []
        assert [url for url in asked if not url.startswith((live_server.url, "data:"))] == []
        # On a page without our policy the same HTML makes the request and runs: both detectors
        # work.
        deaf = window.new_page()
        deaf.set_content(HOSTILE["handlers"] + HOSTILE["tracking pixel"].replace("AT", canary.url))
        deaf.wait_for_timeout(200)
        assert ran
        assert canary.asked == ["/pixel.gif"]


@pytest.mark.parametrize(
    "part",
    [
        *(
            pytest.param(n, marks=[pytest.mark.long, pytest.mark.timeout(600)])
            for n in range(PARTS)
        ),
        pytest.param(None, id="sample"),
    ],
)
def test_every_page_is_accessible_responsive_and_small(
    browser: Browser,
    live_server: LiveServer,
    api: Api,
    alice: User,
    bob: User,
    charlie: User,
    script: Script,
    server: MemoryServer,
    settings: Any,
    part: int | None,
) -> None:
    """Check each page in both themes and both widths; the daily run checks a sample in one look."""
    views = chosen(furnish(api, alice, bob, charlie, script, server, settings), part)
    found: dict[str, list[Any]] = {
        "barriers": [],
        "too wide": [],
        "out of reach": [],
        "too large": [],
    }
    with windows(browser, live_server) as window_of:
        for view in views:
            page, size = opened(window_of(view.who), view)
            if size > (WITH_EDITOR if str(view) == EDITOR else LARGEST):
                found["too large"].append((str(view), size))
            for theme, width in LOOKS if part is not None else [SAMPLE[str(view)]]:
                page.emulate_media(color_scheme=theme)
                page.set_viewport_size({"width": width, "height": 860})
                picture(page, view, theme, width)
                found["barriers"] += [(str(view), theme, width, *each) for each in barriers(page)]
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    found["too wide"].append((str(view), width))
            found["out of reach"] += [(str(view), each) for each in out_of_reach(page)]
            page.close()
    assert found == {name: [] for name in found}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", ["de", "zh-hans"])
@pytest.mark.parametrize("part", range(PARTS))
def test_no_page_overflows_in_another_language(
    browser: Browser,
    live_server: LiveServer,
    api: Api,
    alice: User,
    bob: User,
    charlie: User,
    script: Script,
    server: MemoryServer,
    settings: Any,
    language: str,
    part: int,
) -> None:
    """German words are the longest."""
    views = chosen(furnish(api, alice, bob, charlie, script, server, settings), part)
    found = []
    with windows(browser, live_server, locale=language) as window_of:
        for view in views:
            page, _ = opened(window_of(view.who), view)
            if view.name != "frame":
                assert page.locator("html").get_attribute("lang") == language, str(view)
            for theme, width in LOOKS[:2]:
                page.emulate_media(color_scheme=theme)
                page.set_viewport_size({"width": width, "height": 860})
                picture(page, view, f"{language}-{theme}", width)
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    found.append((str(view), width))
            page.close()
    assert found == []


def test_decisions_work_without_scripts(
    browser: Browser, live_server: LiveServer, api: Api, alice: User, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 600
    ids = {
        name: api.propose(subject=name)
        for name in ("approve", "reject", "edit", "ask_back", "bulk one", "bulk two")
    }
    with signed_in(browser, live_server, alice, java_script_enabled=False) as window:
        page = window.new_page()
        page.goto(f"/actions/{ids['approve']}/")
        approve(page)
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
        page.get_by_role("link", name="Changes").first.click()
        expect(page.locator("ins", has_text="by hand")).to_be_visible()

        page.goto(f"/actions/{ids['ask_back']}/")
        page.locator("summary", has_text="Request changes").click()
        page.get_by_label("What should change?").fill("Shorter, please")
        page.locator("form[data-action=ask_back] button:not([type=button])").click()
        expect(page.get_by_text("Shorter, please").first).to_be_visible()

        page.goto("/?q=bulk")
        for box in page.locator(".pick input").all():
            box.check()
        page.locator("form[data-action=bulk] button[data-bulk]").click()
        # Only a script reports that a mail was in view, so each is approved on its page.
        expect(page.get_by_text("2 mails are left out")).to_be_visible()
        expect(page.locator("form[data-action=bulk-approve]")).to_have_count(0)
        expect(page.get_by_role("link", name="Open it")).to_have_count(2)
    states = {name: PendingAction.objects.get(pk=key).status for name, key in ids.items()}
    assert states == {
        "approve": "pending",
        "reject": "rejected",
        "edit": "pending",
        "ask_back": "pending",
        "bulk one": "pending",
        "bulk two": "pending",
    }
    assert PendingAction.objects.get(pk=ids["edit"]).current.preview["title"] == "edited by hand"
