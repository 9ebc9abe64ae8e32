"""The mail before the button: what a decision needs is on the screen without scrolling."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from pytest_django.live_server_helper import LiveServer

from accounts.models import User
from tests.browser.test_every_page import signed_in
from tests.conftest import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LINES = 5
LETTER = (
    "Dear Mira,\n\nthe carrier has confirmed Thursday.\n" + "We come between nine and ten. " * 60
)
MAILS: dict[int, dict[str, Any]] = {  # by the number of warnings
    1: {"body": LETTER},
    3: {"body": f"As an AI language model I cannot tell.\n{LETTER}", "subject": "Dear [Name]"},
    6: {
        "body": "As an AI language model I cannot tell. Our bank account has changed.\n"
        f"AKIAIOSFODNN7EXAMPLE\n{LETTER}",
        "subject": "Dear [Name]",
        "bcc": ["charles@lovelace.example"],
    },
}  # fmt: skip


def shows_lines(page: Page, text: Locator) -> bool:
    """Return True if the first lines of the text are inside the window and inside their scroller."""
    return bool(
        text.evaluate(
            """(text, lines) => {
                const height = parseFloat(getComputedStyle(text).lineHeight);
                const top = text.getBoundingClientRect().top;
                let bottom = innerHeight;
                const bar = document.querySelector(".act").getBoundingClientRect();
                if (bar.height && bar.left < text.getBoundingClientRect().right) bottom = Math.min(bottom, bar.top);
                for (let box = text.parentElement; box; box = box.parentElement)
                    if (getComputedStyle(box).overflowY !== "visible")
                        bottom = Math.min(bottom, box.getBoundingClientRect().bottom);
                return top >= 0 && top + lines * height <= bottom + 1;
            }""",
            LINES,
        )
    )


@pytest.mark.parametrize(
    "size",
    [
        (1366, 650),
        (390, 844),
        *(pytest.param(size, marks=pytest.mark.long) for size in ((1280, 800), (1920, 1080))),
    ],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
def test_mail_and_buttons_are_in_view(
    browser: Browser, live_server: LiveServer, alice: User, api: Api, size: tuple[int, int]
) -> None:
    ids = {count: api.propose(**fields) for count, fields in MAILS.items()}
    viewport: Any = {"width": size[0], "height": size[1]}
    with signed_in(browser, live_server, alice, viewport=viewport) as window:
        page = window.new_page()
        for count, key in ids.items():
            page.goto(f"/actions/{key}/")
            in_view(page, page.locator("main"), count)
        if size[0] < 1120:
            return
        page.goto("/")
        for count, key in ids.items():
            pane = page.locator(f"#pane [data-action-id='{key}']")
            expect(pane).to_be_visible()
            in_view(page, pane, count)
            page.keyboard.press("j")


def in_view(page: Page, place: Locator, count: int) -> None:
    warnings = place.locator(".warns > li")
    expect(warnings).to_have_count(count)
    parts = [place.locator(".env dd b").first, place.locator(".env .chip").first]
    for part in [*parts, *warnings.all(), *place.locator(".act .btn:visible").all()]:
        expect(part).to_be_in_viewport(ratio=0.95)
    assert shows_lines(page, place.locator(".body .text").first), count


@pytest.mark.parametrize("size", [(1366, 650), (390, 844)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_list_and_edit_page_keep_their_place(
    browser: Browser, live_server: LiveServer, alice: User, api: Api, size: tuple[int, int]
) -> None:
    name = f"{'the minutes of the meeting about the second mill ' * 3}.txt"
    key = api.propose(attachments=[{"name": name, "text": "Hello"}])
    viewport: Any = {"width": size[0], "height": size[1]}
    phone = size[0] < 760
    with signed_in(
        browser, live_server, alice, viewport=viewport, has_touch=phone, is_mobile=phone
    ) as window:
        page = window.new_page()
        page.goto("/")
        box = page.locator("#rows input[type=checkbox]")
        expect(page.locator("[aria-busy=true], .htmx-request")).to_have_count(0)
        before = box.bounding_box()
        box.check()
        expect(page.locator("[data-bulk]")).to_contain_text("(1)")
        assert box.bounding_box() == before, "the first tick moves nothing under the next one"
        for button in page.locator("#bulk .btn:visible").all():
            assert button.evaluate("each => each.scrollWidth <= each.clientWidth"), "a cut label"
        page.goto(f"/actions/{key}/edit/")
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]
        subject = page.locator("label[for=id_subject]")
        assert subject.evaluate("each => each.offsetHeight") < 45, "its word is on one line"


def test_focus_in_the_buttons_does_not_scroll_the_mail(
    browser: Browser, live_server: LiveServer, alice: User, api: Api
) -> None:
    key = api.propose(**MAILS[6])
    size: Any = {"width": 1366, "height": 650}
    with signed_in(browser, live_server, alice, viewport=size) as window:
        page = window.new_page()
        page.goto(f"/actions/{key}/")
        place: dict[str, int] = {}
        for each in (
            page.locator(".decide").locator("a, button, summary").locator("visible=true").all()
        ):
            each.focus()
            place[each.inner_text()] = page.evaluate("scrollY")
        assert len(place) > 3, place
        assert set(place.values()) == {0}, place
        assert page.evaluate("document.documentElement.scrollHeight") > 650 + 200
        page.goto("/")
        expect(page.locator("#pane .act")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollHeight") == 650, "the queue fits"
