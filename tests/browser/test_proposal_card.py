"""The card of a proposal in a host of MCP Apps: it shows the state, and opens the review page."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import picture
from tools.surfaces import mcp_card

pytestmark = pytest.mark.browser
CARD = Path(mcp_card.__file__).parent / "proposal_card.html"
ANSWER: dict[str, Any] = {
    "status": "pending",
    "action": {
        "id": "0b0f",
        "state": "pending",
        "review_url": "https://mail.example/actions/0b0f/",
        "next": "A person has not decided yet. Wait for the decision, and do not propose it again.",
    },
}
HOST = """
<iframe sandbox="allow-scripts" style="width:100%;height:300px;border:0"></iframe>
<script>
  window.heard = [];
  const card = document.querySelector("iframe");
  const tell = (message) => card.contentWindow.postMessage({jsonrpc: "2.0", ...message}, "*");
  addEventListener("message", ({data}) => {
    heard.push(data);
    if (data.method === "ui/initialize") tell({id: data.id, result: {hostContext: {theme: "THEME"}}});
    if (data.method === "ui/open-link") tell({id: data.id, result: {}});
  });
</script>
"""


@pytest.fixture(params=[("light", 900), ("dark", 390)], ids=["desktop", "phone"])
def host(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    theme, width = request.param
    page = browser.new_page(viewport={"width": width, "height": 400})
    page.set_content(HOST.replace("THEME", theme))
    page.evaluate("html => { document.querySelector('iframe').srcdoc = html }", CARD.read_text())
    page.wait_for_function("heard.some(each => each.method === 'ui/notifications/initialized')")
    yield page
    page.close()


@pytest.mark.parametrize(
    ("state", "doubt"),
    [("succeeded", "It may have been sent twice."), ("expired", "It may have been sent already.")],
)
def test_card_tells_a_change_and_a_doubt(host: Page, state: str, doubt: str) -> None:
    given = {"arguments": {"subject": "Offer", "to": ["mira@northwind.example"]}}
    facts = {"state": state, "review": {"by": "Bob", "verdict": "approved", "changed": ["to"]}}
    action = {**ANSWER["action"], **facts, "may_have_been_sent_at": "2026-11-29T10:00:00Z"}
    result = {"content": [{"type": "text", "text": json.dumps({"action": action})}]}
    for method, params in (("tool-input", given), ("tool-result", result)):
        message = {"method": f"ui/notifications/{method}", "params": params}
        host.evaluate("message => tell(message)", message)
    card = host.frame_locator("iframe")

    card.get_by_text(f"A reviewer changed: to. {doubt}").wait_for()
    assert (card.locator("h1").inner_text(), card.locator("#to").inner_text()) == ("Offer", "")


def test_card_shows_the_state_and_opens_the_page(host: Page) -> None:
    given = {"arguments": {"subject": "<b>Offer</b>", "to": ["mira@northwind.example"]}}
    result = {"content": [{"type": "text", "text": json.dumps(ANSWER)}]}
    for method, params in (("tool-input", given), ("tool-result", result)):
        message = {"method": f"ui/notifications/{method}", "params": params}
        host.evaluate("message => tell(message)", message)
    card = host.frame_locator("iframe")
    card.get_by_text("Waiting for a person").wait_for()
    assert card.locator("h1").inner_text() == "<b>Offer</b>"
    picture(host, f"proposal-card-{host.viewport_size['width'] if host.viewport_size else ''}")
    card.get_by_role("link", name="Open the review page").click()
    host.wait_for_function("heard.some(each => each.method === 'ui/open-link')")
    opened = host.evaluate("heard.find(each => each.method === 'ui/open-link').params.url")
    assert opened == "https://mail.example/actions/0b0f/"
    assert card.locator("button, form, input").count() == 0
