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
from tools.mail.parsers import Unparsable, is_small, run
from tools.mail.text.characters import invisible_in, without_invisible
from tools.mail.text.decoding import without_controls
from tools.mail.text.quote_lines import without_marks
from tools.mail.text.quotes import fold

if TYPE_CHECKING:
    from tools.providers.base import Message

HTML_CHARACTERS = 500_000  # parsing is capped first: a megabyte of HTML costs a tenth of a second
READ_CHARACTERS = 1_000_000  # of HTML, without the pictures in it
# Programs put whole pictures into a page; the text may begin behind megabytes of them.
DATA = re.compile(r"data:[\w/+.;=-]{0,100};base64,[A-Za-z0-9+/=\r\n]{100,}", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Readable:
    """The text of a message; `folded` has the numbers of characters that were left out of it.

    `notes` say what else a reader must know. `all_below`: so was everything below a place.
    """

    text: str
    hidden_text_removed: bool = False
    folded: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    all_below: bool = False


def make_readable(message: "Message", *, in_time: bool = True, quoted: bool = True) -> Readable:
    """Return the text of a message for a reader: its plain part, else its HTML as text.

    Without `quoted`, the quoted original and the signature are left out. HTML that cannot be read
    safely gives its bare text. HTML that is not small does too if it is not `in_time`. Raises
    Unparsable if too much is being read at once.
    """
    if message.text is not None:
        read = _finish(without_marks(message.text))
        return read if quoted else _fold_text(read, message, in_time=in_time)
    html = DATA.sub("data:,", message.html or "")
    small = is_small(html)
    if not small and not in_time:
        return Readable(text=bare_text(html))
    try:
        if quoted:
            read = run(page_text, html[:READ_CHARACTERS], small=small)
        else:
            people = (*message.to, *message.cc)
            read = run(folded_text, html[:READ_CHARACTERS], message.subject, people, small=small)
    except Unparsable as error:
        error.raise_if_busy()
        return Readable(text=bare_text(html))
    if len(html) <= READ_CHARACTERS:
        return read
    note = f"The HTML is too long. Its first {READ_CHARACTERS:,} characters were read."
    return replace(read, notes=(*read.notes, note))


def page_text(html: str) -> Readable:
    """Return the text of HTML for a reader."""
    from tools.mail.html.text import render

    page = split_hidden(html)
    return _finish(without_marks(render(page.html)), hidden=page.characters)


def folded_text(html: str, subject: str, people: tuple[str, ...]) -> Readable:
    """Return the text of HTML for a reader, without the quoted original and the signature."""
    from tools.mail.html.text import render

    page = split_hidden(html)
    return _fold(_finish(render(mark_quotes(page.html)), hidden=page.characters), subject, people)


def show_visible(html: str) -> tuple[str, bool]:
    """Return the visible part of the HTML, and True if any hidden text was removed."""
    found = split_hidden(html[:HTML_CHARACTERS])
    return found.html, bool(found.unseen) or invisible_in(unescape(found.html))[1] > 0


def _finish(text: str, *, hidden: int = 0) -> Readable:
    """Return the text without what nobody sees; `hidden` characters of it were left out before."""
    _, spelled = invisible_in(text)
    notes = [f"Hidden text was left out: {hidden:,} characters."] if hidden else []
    notes += [f"Invisible characters were left out: {spelled:,}."] if spelled else []
    return Readable(
        text=_tidy(without_invisible(without_controls(text))),
        hidden_text_removed=hidden + spelled > 0,
        notes=tuple(notes),
    )


def _fold_text(read: Readable, message: "Message", *, in_time: bool) -> Readable:
    """Return the folded text of the plain part.

    If all below a place was folded, the HTML of the message must agree: only there the program, or
    a colour, may tell answers from the lines around them.
    """
    people = (*message.to, *message.cc)
    found = _fold(read, message.subject, people)
    html = (message.html or "")[:HTML_CHARACTERS]
    if not html or not found.all_below:
        return found
    small = is_small(html)
    if not small and not in_time:
        return read
    try:
        page = run(folded_text, html, message.subject, people, small=small)
    except Unparsable:
        return read
    kept, whole = _bare(found.text), _bare(read.text)
    rows = [_bare(row) for row in page.text.split("\n")]
    lost = any(row and row in whole and row not in kept for row in rows)
    return read if lost else found


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _fold(read: Readable, subject: str, people: tuple[str, ...]) -> Readable:
    found = fold(read.text, subject=subject, people=people)
    counts = {"quoted": found.quoted, "signature": found.signature}
    return replace(
        read,
        text=_tidy(found.text),
        folded={name: count for name, count in counts.items() if count},
        all_below=found.all_below,
    )


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")
