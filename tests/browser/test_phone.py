"""The review page on a phone: the message has most of the screen, and a thumb reaches everything."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect
from pytest_django.live_server_helper import LiveServer

from accounts.models import User
from approvals.models import PendingAction
from tests.browser.conftest import picture
from tests.browser.test_every_page import signed_in
from tests.conftest import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PORTRAIT, SMALL, LANDSCAPE = (390, 844), (360, 640), (844, 390)
# The share of the screen, in percent, that the text and the card of a mail have at least.
SHARES = {PORTRAIT: (52, 80), SMALL: (38, 80), LANDSCAPE: (40, 70)}
LONG = "We can deliver on Thursday, and we can bring the tools for the repair. " * 60
# The visible part of an element, without the bars that cover it, as a share of the screen.
SHARE = """(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  let [left, top, right, bottom] = [Math.max(box.left, 0), Math.max(box.top, 0),
    Math.min(box.right, innerWidth), Math.min(box.bottom, innerHeight)];
  for (const bar of document.querySelectorAll(".act, .rail")) {
    const cover = bar.getBoundingClientRect();
    if (!cover.width || getComputedStyle(bar).position !== "fixed") continue;
    if (cover.width > cover.height) bottom = Math.min(bottom, cover.top);
    else if (cover.left > 0) right = Math.min(right, cover.left);
    else left = Math.max(left, cover.right);
  }
  return 100 * Math.max(right - left, 0) * Math.max(bottom - top, 0) / (innerWidth * innerHeight);
}"""

HEIGHTS = """(selector) => [...document.querySelectorAll(selector)]
  .map((each) => each.getBoundingClientRect().height).sort((one, other) => one - other)"""


@pytest.fixture
def window(browser: Browser, live_server: LiveServer, alice: User) -> Iterator[BrowserContext]:
    with signed_in(browser, live_server, alice, has_touch=True) as context:
        yield context


def opened(window: BrowserContext, address: str, size: tuple[int, int]) -> Page:
    page = window.new_page()
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(address)
    # No presence request may run while the database is emptied.
    page.wait_for_load_state("networkidle")
    return page


def test_nothing_of_a_mail_is_beside_the_screen(window: BrowserContext, api: Api) -> None:
    cells = '<tr><td width="700">Menu</td><td style="min-width: 320px">Pay 4711</td></tr>'
    wide = f'<table width="1000">{cells}</table><pre>{"Menu " * 60} Pay 4711</pre>'
    page = opened(window, f"/actions/{api.propose(body=wide, body_type='html')}/", PORTRAIT)
    frame = page.frames[-1]
    assert "Pay 4711" in frame.locator("main").inner_text()
    assert frame.evaluate("document.documentElement.scrollWidth - innerWidth") == 0


@pytest.mark.parametrize("sort", ["text", pytest.param("html", marks=pytest.mark.long)])
def test_message_has_most_of_the_screen(window: BrowserContext, api: Api, sort: str) -> None:
    body = f"<p>{LONG}</p>" if sort == "html" else LONG
    key = api.propose(body=body, body_type=sort, cc=["mira@northvvind.example"])
    page = opened(window, f"/actions/{key}/", PORTRAIT)
    found = {}
    for size in SHARES:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        picture(page, f"phone-{sort}-{size[0]}")
        found[size] = tuple(
            round(page.evaluate(SHARE, f".message{part}")) for part in (" :is(.text, .frame)", "")
        )
        assert page.evaluate(HEIGHTS, ".warns li")[-1] <= 44, "each warning has one line"
        if size != LANDSCAPE:
            assert page.evaluate(HEIGHTS, ".decide")[0] < 64, "the decision has one row"
    low = {
        size: shares
        for size, shares in found.items()
        if any(share < least for share, least in zip(shares, SHARES[size], strict=True))
    }
    assert low == {}, found


@pytest.mark.parametrize(
    "scripts",
    [
        pytest.param(True, id="scripts"),
        pytest.param(False, id="no scripts", marks=pytest.mark.long),
    ],
)
def test_touches_read_a_warning_and_decide(
    browser: Browser, live_server: LiveServer, alice: User, api: Api, scripts: bool
) -> None:
    key = api.propose(body=LONG, cc=["mira@northvvind.example"])
    with signed_in(
        browser, live_server, alice, has_touch=True, java_script_enabled=scripts
    ) as window:
        page = opened(window, f"/actions/{key}/", PORTRAIT)
        warning = page.locator(".warns li").first
        expect(warning.locator("b")).to_be_visible()
        expect(warning.locator(".told")).to_be_hidden()
        warning.get_by_role("button", name="Read more").tap()
        expect(warning.locator(".told")).to_be_visible()
        page.keyboard.press("Escape")
        expect(warning.locator(".told")).to_be_hidden()

        page.locator("summary", has_text="Reject").tap()
        page.get_by_label("Why?").fill("Not like this")
        page.locator("form[data-action=reject] button").tap()
        # The bar with the places is back after the decision.
        expect(page.locator(".decide")).to_have_count(0)
        page.get_by_role("button", name="Menu").tap()
        page.get_by_role("link", name="Mailboxes").tap()
        page.wait_for_url("**/mailboxes/")
    assert PendingAction.objects.get(pk=key).status == "rejected"


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(PORTRAIT, id="portrait"),
        pytest.param(LANDSCAPE, id="landscape", marks=pytest.mark.long),
    ],
)
def test_opened_menu_and_forms_have_no_barriers(
    window: BrowserContext, api: Api, size: tuple[int, int]
) -> None:
    page = opened(window, f"/actions/{api.propose(body=LONG)}/", size)
    page.locator("summary", has_text="Changes").tap()
    expect(page.get_by_label("What should change?")).to_be_in_viewport(ratio=1)
    picture(page, f"phone-answer-{size[0]}")
    assert Axe().run(page, options={"iframes": False}).violations_count == 0
    page.goto("/")
    page.get_by_role("button", name="Menu").tap()
    for place in ("Mailboxes", "Tokens", "Alice"):
        expect(page.get_by_role("link", name=place)).to_be_in_viewport(ratio=1)
    picture(page, f"phone-menu-{size[0]}")
    report = Axe().run(page, options={"iframes": False})
    assert report.violations_count == 0, report.generate_report()
    page.wait_for_load_state("networkidle")
