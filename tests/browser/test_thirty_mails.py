"""Thirty waiting mails, four of them traps, approved in haste: by keys on a laptop, by thumb on a
phone. No trap leaves without a second, deliberate step.
"""

import base64
import io
import time
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from accounts.models import Mailbox, User
from approvals.models import PendingAction
from tests.browser.test_every_page import signed_in
from tests.conftest import Api
from tests.support.people.browser import set_rules
from tests.support.people.office import letter
from tests.support.servers.memory import MemoryServer

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.django_db(transaction=True),
]
TEXT = (
    "Hello Mira,\n\npallet {n} leaves on Thursday at nine and arrives on Friday morning.\n"
    "The driver calls you half an hour before.\n\nKind regards\nAlice"
)
TRAPS: dict[str, dict[str, Any]] = {
    "look-alike": {"to": ["mira@northvvind.example"], "body": "Here is our offer: 4,200 euros."},
    "placeholder": {"body": "Dear [Name],\n\nthank you for {{topic}}."},
    "bank account": {"body": "Our new bank account is DE02 1203 0000 0000 2020 51."},
    "wrong file": {"body": "Attached is your invoice 2291."},
}


def pdf(text: str) -> str:
    sheet, file = Image.new("RGB", (600, 800), "white"), io.BytesIO()
    ImageDraw.Draw(sheet).text((60, 80), text, fill="black")
    sheet.save(file, "PDF")
    return base64.b64encode(file.getvalue()).decode()


def propose_all(api: Api, server: MemoryServer, own: str) -> dict[str, str]:
    """Propose them in their order to somebody who has had mail, and return the traps by name."""
    sent = letter(to="mira@northwind.example", sender=own)
    server.deliver(own, sent.as_bytes(), folder="sent")
    traps: dict[str, str] = {}
    for number in range(26):
        api.propose(subject=f"Delivery {number}", body=TEXT.format(n=100 + number))
        if number in (5, 11, 17, 23):
            name = list(TRAPS)[len(traps)]
            file = {
                "name": "invoice-2291.pdf",
                "type": "application/pdf",
                "content_base64": pdf("Invoice 1877, Contoso"),
            }
            more: dict[str, Any] = {"attachments": [file]} if name == "wrong file" else {}
            traps[name] = api.propose(subject=name, **TRAPS[name], **more)
    return traps


def by_keys(page: Page) -> None:
    """Press `a` as soon as the mail beside the list counts as read, and `j` where it asks again."""
    page.goto("/")
    left = 0
    while page.locator("#rows > li").count() > left:
        at = page.locator("#rows > li.at").get_attribute("data-id")
        page.locator(f"#pane[data-shown='{at}']:not([aria-busy]) [data-seen]").first.wait_for(
            state="attached"
        )
        if page.locator("#pane details.although").count():
            page.keyboard.press("a")
            expect(page.locator("#pane details.although[open]")).to_be_visible()
        else:
            with page.expect_navigation():
                page.keyboard.press("a")
            if "/actions/" not in page.url:
                continue
            expect(page.get_by_text("Open each of its files first.").first).to_be_visible()
        left += 1
        page.evaluate("sessionStorage.clear()")
        page.goto("/")
        for _ in range(left):
            page.keyboard.press("j")


def by_thumb(page: Page) -> None:
    """Press the large button as soon as the mail counts as read, and skip where it asks again."""
    page.goto("/line/")
    while page.locator(".act.decide").count():
        page.locator("[data-seen]").first.wait_for(state="attached")
        although = page.locator("details.although > summary")
        if although.count():
            although.tap()
            skip(page)
            continue
        with page.expect_navigation():
            page.locator("form[data-action=approve] button").first.tap()
        if page.get_by_text("Open each of its files first.").count():
            skip(page)


def skip(page: Page) -> None:
    with page.expect_navigation():
        page.locator("[data-skip]").click()


@pytest.mark.parametrize(
    ("decide", "size"),
    [(by_keys, (1366, 650)), (by_thumb, (390, 844))],
    ids=["keys", "thumb"],
)
def test_no_trap_is_approved_in_haste(
    browser: Browser,
    live_server: LiveServer,
    alice: User,
    mailbox: Mailbox,
    api: Api,
    server: MemoryServer,
    decide: Callable[[Page], None],
    size: tuple[int, int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_rules(alice, mailbox, files_opened=True)
    traps = propose_all(api, server, mailbox.address)
    touch = size[0] < 500
    with signed_in(
        browser,
        live_server,
        alice,
        viewport={"width": size[0], "height": size[1]},
        has_touch=touch,
        is_mobile=touch,
    ) as window:
        begun = time.monotonic()
        decide(window.new_page())
        took = time.monotonic() - begun

    approved = {
        str(pk)
        for pk in PendingAction.objects.filter(status="approved").values_list("pk", flat=True)
    }
    with capsys.disabled():
        print(f"\n{len(approved)} approved, {took / 30:.1f} s a mail")  # noqa: T201
    assert [name for name, pk in traps.items() if pk in approved] == []
    assert len(approved) == 26
