"""A day's work in the queue: thirty mails by keyboard, while others work on the same list."""

import re
import uuid

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PATIENCE_MS
from tests.browser.presses import approve, read
from tests.support.processes.mailhub import Mailhub
from tests.support.processes.programs import manage

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.timeout(300)]
SHIFTS = """
  window.shifted = 0;
  new PerformanceObserver((list) => { for (const each of list.getEntries()) window.shifted += each.value; })
    .observe({ type: "layout-shift", buffered: true });
"""


def opened(
    browser: Browser, mailhub: Mailhub, link: str | None = None
) -> tuple[BrowserContext, Page]:
    window = browser.new_context(base_url=mailhub.url, viewport={"width": 1280, "height": 860})
    window.set_default_timeout(PATIENCE_MS)
    page = window.new_page()
    page.goto(link or mailhub.new_link())
    page.locator("form[data-action=sign-in] button").click()
    page.wait_for_url(re.compile(r"/(welcome/)?$"))  # the first sign-in leads to Welcome
    page.goto(f"{mailhub.url}/")
    return window, page


@pytest.mark.parametrize("count", [9, pytest.param(30, marks=pytest.mark.long)])
def test_mails_are_reviewed_without_a_mouse(browser: Browser, mailhub: Mailhub, count: int) -> None:
    run = uuid.uuid4().hex
    ids = [mailhub.propose(f"Mail {n} {run}")["id"] for n in range(count)]
    window, page = opened(browser, mailhub)
    mouse: list[str] = []
    window.expose_binding("moused", lambda _, what: mouse.append(what))
    # Keys cause click events too; the detail of the event tells them apart.
    window.add_init_script(
        "for (const what of ['pointerdown', 'mousedown']) addEventListener(what, () => moused(what), true)"
    )
    # each mail has to be in view for a second, which passes when the test says so
    window.clock.install()
    page.keyboard.press("/")
    page.keyboard.type(f'"{run}"')
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(run))
    for decided in range(count):
        expect(page.locator("#rows > li")).to_have_count(count - decided, timeout=PATIENCE_MS)
        first = page.locator("#rows > li").first
        key = first.get_attribute("data-id")
        expect(page.locator(f"#pane [data-action-id='{key}']")).to_be_visible()
        if decided == 0:
            page.keyboard.press("a")  # too early: only a message appears
            expect(page.locator("#said")).to_contain_text("Read it first")
        read(page)
        if decided % 13 == 5:
            page.keyboard.press("r")
            page.keyboard.type("Not like this")
            page.keyboard.press("Control+Enter")
        elif decided % 13 == 7:
            page.keyboard.press("Enter")
            page.wait_for_url(re.compile(str(key)))
            read(page)
            page.keyboard.press("a")
            expect(page).not_to_have_url(re.compile(str(key)))
            page.goto(f"/?q={run}")
        else:
            page.keyboard.press("a")
        expect(page.locator(f"#rows > li[data-id='{key}']")).to_have_count(0)
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    assert mouse == []
    states = [mailhub.action(each)["state"] for each in ids]
    assert states.count("rejected") == len(range(5, count, 13))
    assert states.count("pending") == 0
    window.close()


@pytest.mark.long
def test_rows_change_in_place_for_every_viewer(browser: Browser, mailhub: Mailhub) -> None:
    run = uuid.uuid4().hex[:8]
    ids = [mailhub.propose(f"{word} {run}")["id"] for word in ("First", "Second", "Third")]
    bob = _colleague(mailhub)
    mine, page = opened(browser, mailhub)
    theirs, other = opened(browser, mailhub, bob)
    with page.expect_response(re.compile(r"/live/\?since=")) as bell:
        page.goto(f"/?q={run}")
    assert bell.value.headers["content-type"] == "text/event-stream"
    page.evaluate(SHIFTS)
    expect(page.locator("#pane [data-action-id]")).to_be_visible()
    page.keyboard.press("j")
    focused = page.evaluate("document.activeElement.href")

    # Somebody else opens an action and decides it, while the program proposes another.
    other.goto(f"/actions/{ids[2]}/")
    expect(page.locator(f"#row-{ids[2]} [data-looking]")).to_contain_text(
        "Bob is reviewing", timeout=PATIENCE_MS
    )
    approve(other)
    expect(page.locator(f"#row-{ids[2]}.left")).to_be_visible()
    mailhub.propose(f"Fourth {run}")
    expect(page.locator("[data-new]")).to_have_text("1 new")

    assert page.locator("#rows > li").count() == 3
    assert page.evaluate("document.activeElement.href") == focused
    assert page.evaluate("window.shifted") < 0.01
    box = page.locator(f"#row-{ids[0]} .pick input")
    box.focus()
    other.goto(f"/actions/{ids[0]}/")
    other.get_by_role("button", name="Assign to me").click()
    expect(page.locator(f"#row-{ids[0]}")).to_contain_text("assigned to", timeout=PATIENCE_MS)
    expect(box).to_be_focused()
    # Two reviewers at once: the second one sees a message, and nothing is done twice.
    page.goto(f"/actions/{ids[0]}/")
    other.goto(f"/actions/{ids[0]}/")
    other.get_by_text("Reject…").click()
    other.locator("form[data-action=reject] button").click()
    expect(page.locator("[data-changed]")).to_be_visible(timeout=PATIENCE_MS)
    page.reload()
    expect(page.locator("form[data-action=approve]")).to_have_count(0)
    assert mailhub.action(ids[0])["state"] == "rejected"

    # The page reports a lost connection, and polls until it is back.
    page.goto(f"/?q={run}")
    mine.set_offline(True)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("[data-lost]")).to_contain_text("Connection lost")
    mine.set_offline(False)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("[data-lost]")).to_be_hidden(timeout=PATIENCE_MS)
    # The session ends while the page is open: the page asks for a sign-in, and decides nothing.
    mine.clear_cookies()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page).to_have_url(re.compile("sign-in"), timeout=PATIENCE_MS)
    for each in (mine, theirs):
        each.close()
    # With a second person, Ada needs a second factor in all later tests.
    code = "from accounts.models import User; User.objects.filter(first_name='Bob').update(is_active=False)"
    assert manage(mailhub.home, "shell", "-c", code).returncode == 0


def test_every_function_has_a_key(browser: Browser, mailhub: Mailhub) -> None:
    run = uuid.uuid4().hex[:8]
    ids = [mailhub.propose(f"{word} {run}")["id"] for word in ("One", "Two")]
    window, page = opened(browser, mailhub)
    page.goto(f"/?q={run}")
    for key, shown in (("?", "#help"), ("Control+k", "#palette")):
        page.keyboard.press(key)
        expect(page.locator(shown)).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(shown)).to_be_hidden()
        # text typed in there triggers no key
        expect(page.locator("dialog :focus")).to_have_count(0)
    page.keyboard.press("x")
    expect(page.locator("[data-bulk]")).to_contain_text("(1)")
    page.keyboard.press("Control+k")
    page.keyboard.type("drafts")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/drafts/"))
    page.goto(f"/actions/{ids[0]}/")
    page.keyboard.press("c")
    page.keyboard.type("Shorter, please: a, r, x and j are letters here")
    with page.expect_navigation():  # a page handles keys once it is loaded
        page.keyboard.press("Control+Enter")
    expect(page.get_by_text("requested changes.").first).to_be_visible()
    with page.expect_navigation():
        page.keyboard.press("e")
    page.get_by_label("Subject").focus()
    page.keyboard.press("End")
    page.keyboard.type(" edited")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(f"/actions/{ids[0]}/$"))
    page.keyboard.press("u")
    page.wait_for_url(f"{mailhub.url}/")
    review = mailhub.action(ids[0])["review"]
    assert (review["verdict"], review["changed"]) == ("edited", ["subject"])

    # Turned off, single keys do nothing; the others still work.
    page.goto("/keyboard/")
    with page.expect_navigation():
        page.locator("form[data-action=keys] button").press("Enter")
    page.goto(f"/?q={run}")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()
    window.close()


def _colleague(mailhub: Mailhub) -> str:
    """Make Bob an approver of the mailbox, and return his sign-in link."""
    manage(mailhub.home, "create_user", "--email", "bob@lovelace.example", "--name", "Bob")
    code = (
        "from accounts.models import *; m = Mailbox.objects.get(); "
        "u = User.objects.get(email='bob@lovelace.example'); "
        "Membership.objects.get_or_create(mailbox=m, user=u, defaults={'role': 'approver'})"
    )
    done = manage(mailhub.home, "shell", "-c", code)
    assert done.returncode == 0, done.stderr
    said = manage(mailhub.home, "sign_in_link", "--user", "bob@lovelace.example")
    assert said.returncode == 0, said.stderr
    path = said.stdout.strip().split("/sign-in/")[1]
    return f"{mailhub.url}/sign-in/{path}"


def test_html_is_edited_as_it_looks_and_nothing_is_lost(browser: Browser, mailhub: Mailhub) -> None:
    table = '<table border="1"><tbody><tr><td align="right">101</td><td>320 kg</td></tr></tbody></table>'
    body = f'<p>Hello <span style="color: #cc0000">Mira</span>,</p><ul><li>Pallet</li></ul>{table}'
    action = mailhub.propose("HTML", body=body, body_type="html")["id"]
    window, page = opened(browser, mailhub)
    page.goto(f"/actions/{action}/")
    page.keyboard.press("e")
    text = page.locator("[data-editor] [role=textbox]")
    expect(text).to_be_focused(timeout=PATIENCE_MS)
    page.keyboard.type("Good morning. ")
    page.keyboard.press("Control+Enter")

    page.wait_for_url(re.compile(f"/actions/{action}/$"))
    source = page.context.request.get(f"/actions/{action}/body/").text()
    for kept in (
        "Good morning. Hello",
        ">Mira</span>",
        "<li>Pallet</li>",
        'align="right"',
        "320 kg",
    ):
        assert kept in source

    for unusual, tag in (
        ("<dl><dt>a</dt><dd>b</dd></dl>", "<dl>"),
        ('<div style="white-space: pre-wrap"><p>a  b\nc</p></div>', "a  b\nc"),
    ):
        kept_as_it_is = mailhub.propose("Odd", body=unusual, body_type="html")["id"]
        page.goto(f"/actions/{kept_as_it_is}/edit/")
        expect(page.get_by_text("The editor cannot keep all of this formatting")).to_be_visible()
        expect(page.locator("textarea[name=body]")).to_have_value(re.compile(tag))
    window.close()


def test_selected_passage_goes_along_with_the_request(browser: Browser, mailhub: Mailhub) -> None:
    action = mailhub.propose("Passage", body="Hello Mira. The delivery is on Thursday. Ada")["id"]
    window, page = opened(browser, mailhub)
    page.goto(f"/actions/{action}/")
    page.evaluate("""() => { const text = document.querySelector("[data-quotable] .text").firstChild;
      document.getSelection().setBaseAndExtent(text, text.data.indexOf("The"), text, text.data.indexOf(" Ada")); }""")
    expect(page.get_by_role("button", name="Request a change here")).to_be_visible()
    page.keyboard.press("c")
    expect(page.locator("[data-passage-shown]")).to_contain_text("The delivery is on Thursday.")
    page.keyboard.type("Say Friday.")
    with page.expect_navigation():
        page.keyboard.press("Control+Enter")
    review = mailhub.action(action)["review"]
    assert (review["passage"], review["note"]) == ("The delivery is on Thursday.", "Say Friday.")
    window.close()
