"""The text of a message for its reader: hidden text removed, quotes folded. Pure.

A mail can hold text that no person sees and every program reads. It is removed here, and the result
says so.
"""

import re
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING

from tools.mail.html.clean import split_hidden
from tools.mail.html.tags import bare_text
from tools.mail.html.text import render
from tools.mail.parsers import Unparsable, is_small, run
from tools.mail.text.characters import invisible_in, without_invisible
from tools.mail.text.decoding import without_controls

if TYPE_CHECKING:
    from tools.providers.base import Message

HTML_CHARACTERS = 500_000  # parsing is capped first: a megabyte of HTML costs a tenth of a second
QUOTED = re.compile(r"(?m)^(?:>.*(?:\n|$)){3,}")


@dataclass(frozen=True, kw_only=True)
class Readable:
    text: str
    hidden_text_removed: bool = False


def make_readable(message: "Message", *, in_time: bool = True) -> Readable:
    """Return the text of a message for a reader: its plain part, else its HTML as text.

    HTML that cannot be read safely gives its bare text. HTML that is not small does too if it is
    not `in_time`. Raises Unparsable if too much is being read at once.
    """
    if message.text is not None:
        return _finish(message.text, hidden=False)
    html = message.html or ""
    small = is_small(html)
    if not small and not in_time:
        return Readable(text=bare_text(html))
    try:
        return run(page_text, html[:HTML_CHARACTERS], small=small)
    except Unparsable as error:
        error.raise_if_busy()
        return Readable(text=bare_text(html))


def page_text(html: str) -> Readable:
    """Return the text of HTML for a reader."""
    page, hidden = show_visible(html)
    return _finish(render(page), hidden=hidden)


def show_visible(html: str) -> tuple[str, bool]:
    """Return the visible part of the HTML, and True if any hidden text was removed."""
    found = split_hidden(html[:HTML_CHARACTERS])
    return found.html, bool(found.unseen) or invisible_in(unescape(found.html))[1] > 0


def _finish(text: str, *, hidden: bool) -> Readable:
    _, spelled = invisible_in(text)
    folded = QUOTED.sub(
        lambda match: f"[{match[0].rstrip().count(chr(10)) + 1} quoted lines]\n",
        without_invisible(without_controls(text)),
    )
    return Readable(
        text=re.sub(r"\n{3,}", "\n\n", folded).strip("\n"),
        hidden_text_removed=hidden or spelled > 0,
    )
