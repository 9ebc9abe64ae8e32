"""The text of a message for its reader: hidden text removed, quotes folded. Pure.

A mail can hold text that no person sees and every program reads. It is removed here, and the result
says so.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import unescape
from typing import TYPE_CHECKING

from tools.mail.html.clean import split_hidden
from tools.mail.html.quotes import mark_quotes
from tools.mail.html.tags import bare_text
from tools.mail.html.text import render
from tools.mail.parsers import Unparsable, is_small, run
from tools.mail.text.characters import invisible_in, without_invisible
from tools.mail.text.decoding import without_controls
from tools.mail.text.quote_lines import without_marks
from tools.mail.text.quotes import fold

if TYPE_CHECKING:
    from tools.providers.base import Message

HTML_CHARACTERS = 500_000  # parsing is capped first: a megabyte of HTML costs a tenth of a second


@dataclass(frozen=True, kw_only=True)
class Readable:
    """The text of a message; `folded` has the numbers of characters that were left out of it."""

    text: str
    hidden_text_removed: bool = False
    folded: Mapping[str, int] = field(default_factory=dict)


def make_readable(message: "Message", *, in_time: bool = True, quoted: bool = True) -> Readable:
    """Return the text of a message for a reader: its plain part, else its HTML as text.

    Without `quoted`, the quoted original and the signature are left out. HTML that cannot be read
    safely gives its bare text. HTML that is not small does too if it is not `in_time`. Raises
    Unparsable if too much is being read at once.
    """
    people = (*message.to, *message.cc)
    if message.text is not None:
        read = _finish(without_marks(message.text), hidden=False)
        return read if quoted else _fold(read, message.subject, people)
    html = message.html or ""
    small = is_small(html)
    if not small and not in_time:
        return Readable(text=bare_text(html))
    try:
        if quoted:
            return run(page_text, html[:HTML_CHARACTERS], small=small)
        return run(folded_text, html[:HTML_CHARACTERS], message.subject, people, small=small)
    except Unparsable as error:
        error.raise_if_busy()
        return Readable(text=bare_text(html))


def page_text(html: str) -> Readable:
    """Return the text of HTML for a reader."""
    page, hidden = show_visible(html)
    return _finish(without_marks(render(page)), hidden=hidden)


def folded_text(html: str, subject: str, people: tuple[str, ...]) -> Readable:
    """Return the text of HTML for a reader, without the quoted original and the signature."""
    page, hidden = show_visible(html)
    read = _finish(render(mark_quotes(page)), hidden=hidden)
    return _fold(read, subject, people)


def show_visible(html: str) -> tuple[str, bool]:
    """Return the visible part of the HTML, and True if any hidden text was removed."""
    found = split_hidden(html[:HTML_CHARACTERS])
    return found.html, bool(found.unseen) or invisible_in(unescape(found.html))[1] > 0


def _finish(text: str, *, hidden: bool) -> Readable:
    _, spelled = invisible_in(text)
    return Readable(
        text=_tidy(without_invisible(without_controls(text))),
        hidden_text_removed=hidden or spelled > 0,
    )


def _fold(read: Readable, subject: str, people: tuple[str, ...]) -> Readable:
    found = fold(read.text, subject=subject, people=people)
    counts = {"quoted": found.quoted, "signature": found.signature}
    return replace(
        read,
        text=_tidy(found.text),
        folded={name: count for name, count in counts.items() if count},
    )


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")
