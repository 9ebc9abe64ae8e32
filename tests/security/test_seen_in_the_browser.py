"""The visible text according to mailhub, compared with the pixels in Chromium: a word is legible if
its pixels contrast.
"""

import base64
import random
from html import escape
from itertools import pairwise
from typing import Any

import pytest
from django.template.loader import render_to_string
from playwright.sync_api import Browser, Page

from tests.security.hiding import WORD, carrying_forms, hiding_forms
from tests.tools.warnings.messages import OWN, message
from tools.mail.html.clean import clean, split_hidden, text_of
from tools.warnings import Context, find_warnings

pytestmark = [pytest.mark.browser]
SEED = 20261122
COLUMNS, WIDTH, HEIGHT = 5, 380, 300
BATCH = 60
COUNT = 600
FOUND_AT_MOST_MISSED = 0.25
SHOTS = 20
PIXELS = 12  # that differ clearly: one letter of 9 pixels has as many
# Compares two screenshots box by box: the number of pixels of the word that contrast with the
# picture without it.
COMPARE = """async ([one, other, count, columns, width, height]) => {
  const pixels = async (source) => {
    const image = new Image(); image.src = "data:image/png;base64," + source; await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d", {willReadFrequently: true});
    canvas.drawImage(image, 0, 0); return canvas;
  };
  const light = (d, i) => [0, 1, 2].reduce((sum, c) => {
    const v = d[i + c] / 255;
    return sum + [.2126, .7152, .0722][c] * (v <= .04 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  }, .05);
  const [a, b] = [await pixels(one), await pixels(other)];
  return [...Array(count).keys()].map((n) => {
    const box = [(n % columns) * width, Math.floor(n / columns) * height, width, height];
    const [x, y] = [a.getImageData(...box).data, b.getImageData(...box).data];
    let found = 0;
    for (let i = 0; i < x.length; i += 4) {
      const [p, q] = [light(x, i), light(y, i)];
      if (Math.max(p, q) / Math.min(p, q) >= 1.4) found += 1;
    }
    return found;
  });
}"""


def painted(page: Page, documents: list[str]) -> list[int]:
    """Return the number of visible pixels of WORD in each document."""
    found: list[int] = []
    for start in range(0, len(documents), BATCH):
        batch = documents[start : start + BATCH]
        # The same with the word invisible: it keeps its space, so nothing else moves.
        without = [
            each.replace(WORD, f'<span style="visibility:hidden">{WORD}</span>') for each in batch
        ]
        shots = [_shot(page, each) for each in (batch, without)]
        page.set_content("")
        found += page.evaluate(COMPARE, [*shots, len(batch), COLUMNS, WIDTH, HEIGHT])
    return found


def _shot(page: Page, documents: list[str]) -> str:
    frames = "".join(f'<iframe sandbox srcdoc="{escape(each)}"></iframe>' for each in documents)
    style = f"body{{margin:0;width:{COLUMNS * WIDTH}px;font-size:0}}"
    style += f"iframe{{border:0;width:{WIDTH}px;height:{HEIGHT}px}}"
    page.set_content(f"<!doctype html><style>{style}</style>{frames}")
    # A frame may be painted after the page has loaded: two equal pictures show that all are.
    shots = (page.screenshot(full_page=True) for _ in range(SHOTS))
    for one, next_ in pairwise(shots):
        if one == next_:
            return base64.b64encode(one).decode()
    raise AssertionError(f"{SHOTS} pictures of the same page differ")


def as_shown(html: str) -> str:
    return render_to_string("approvals/body.html", {"html": html})


def new_page(browser: Browser, asked: list[str] | None = None) -> Page:
    page = browser.new_page(
        viewport={"width": COLUMNS * WIDTH, "height": BATCH // COLUMNS * HEIGHT},
        java_script_enabled=True,
    )

    def answer(route: Any) -> None:
        if asked is not None:
            asked.append(route.request.url)
        route.abort()

    page.route("**/*", answer)
    return page


def check_leaving(browser: Browser, forms: list[str]) -> None:
    """Assert that the approver sees all sent text: otherwise it is not sent."""
    leaving = [clean(form).html for form in forms]
    declared = [WORD in text_of(html) for html in leaving]
    legible = [
        pixels >= PIXELS
        for pixels in painted(new_page(browser), [as_shown(html) for html in leaving])
    ]
    wrong = [
        (f, h)
        for f, h, says, is_ in zip(forms, leaving, declared, legible, strict=True)
        if says != is_
    ]
    assert not wrong, f"{len(wrong)} of {len(forms)} leave with text that is not seen: {wrong[:5]}"


def test_sample_of_hidden_words_is_visible_or_removed(browser: Browser) -> None:
    check_leaving(browser, random.Random(SEED).sample(list(hiding_forms(SEED, COUNT)), BATCH))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_600_hidden_words_are_visible_or_removed(browser: Browser) -> None:
    check_leaving(browser, list(hiding_forms(SEED, COUNT)))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_most_words_hidden_by_a_stranger_are_not_read(browser: Browser) -> None:
    """Check the styles only, by which mailhub judges how a mail program shows foreign HTML.

    Text that is covered by something else, or overflows its box, is not found.
    """
    forms = list(hiding_forms(SEED, COUNT))
    plain = [f'<!doctype html><body style="color:#1b1c1e;background:#fff">{form}' for form in forms]
    invisible = [
        form
        for form, pixels in zip(forms, painted(new_page(browser), plain), strict=True)
        if pixels == 0
    ]
    missed = [form for form in invisible if WORD in text_of(clean(split_hidden(form).html).html)]
    assert len(invisible) >= 200
    assert len(missed) <= len(invisible) * FOUND_AT_MOST_MISSED, (
        f"{len(missed)} of {len(invisible)}: {missed[:40]}"
    )


def test_everything_loaded_on_reading_was_warned_about(browser: Browser) -> None:
    asked: list[str] = []
    page = new_page(browser, asked)
    forms = list(carrying_forms())
    outgoing = {host: message(f"<p>Hi</p>{form}", html=True) for host, form in forms}
    warned = {
        host
        for host, each in outgoing.items()
        if any(
            w.code == "remote_content" and host in w.text
            for w in find_warnings(each, Context(own_domains=OWN))
        )
    }

    for each in outgoing.values():
        page.set_content(as_shown(each.request.content.html or ""), wait_until="load")

    called = {
        host for host in outgoing for url in asked if f"//{host}/" in url or f"@{host}/" in url
    }
    assert len(forms) >= 40
    assert called <= warned
    assert len(called) >= 10  # the browser really loads the pictures
