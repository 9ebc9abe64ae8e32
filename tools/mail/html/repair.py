"""Words that a browser loses because something before them has no end. Pure, linear.

An open comment, an open `<title>` or an open quote mark takes in everything up to the end of a page.
A browser shows nothing of it. Those words are hidden text if the page shows others, and the mail
itself if it shows none.
"""

import re
from dataclasses import dataclass
from html import unescape

from turbohtml import Token, TokenType, tokenize

# The text in these elements ends only with their end tag, and is not shown.
RAW = frozenset("title style script iframe noembed noframes".split())
TAG_OF_TEXT = re.compile(
    r"</?(?:a|b|body|br|center|div|font|h[1-6]|head|hr|html|i|img|li|ol|p|pre|span|strong|table|td|tr|ul)\b",
    re.IGNORECASE,
)
TAG = re.compile(r"<[^<>]{0,2000}>")
FOR_OUTLOOK = re.compile(
    r"<!--\[if [^\]<>]{0,100}\]>|<!\[endif\]-->|</?(?:frameset|frame|noframes)\b[^<>]{0,500}>",
    re.IGNORECASE,
)
ENDS = (">", "--!>")


@dataclass(frozen=True, kw_only=True)
class Lost:
    """The words that nobody sees, and the page with them as a part of its text."""

    words: str
    repaired: str


def find_lost(html: str) -> Lost | None:
    """Return what a browser leaves out at the end of a page, or None."""
    html = html.replace("\r\n", "\n").replace("\r", "\n")
    end = start = 0
    inside = 0
    last: Token | None = None
    opened: Token | None = None
    for last in tokenize(html, resolve_references=False, capture_source=True):
        start, end = end, end + len(last.source or last.data or "")
        if last.type not in (TokenType.TEXT, TokenType.CHARACTER_REFERENCE):
            opened, inside = last, end
    if html[end : end + 1] == "<":
        return _in_tag(html, end)
    if last is None or end != len(html):
        return None
    if last.type == TokenType.COMMENT:
        is_open = html.startswith("<!--", start) and not html.endswith(ENDS)
        return _lost(html[:start], last.data or "") if is_open else None
    if opened is None or opened.type != TokenType.START_TAG or opened.tag not in RAW:
        return None
    found = TAG_OF_TEXT.search(html, inside)
    return found and _lost(f"{html[: found.start()]}</{opened.tag}>", html[found.start() :])


def show_all(html: str) -> str:
    """Return the page with the parts that only Outlook or a frame would show."""
    return FOR_OUTLOOK.sub("", html)


def _in_tag(html: str, start: int) -> Lost | None:
    """Return the words in a last tag without an end: one of its quote marks has none."""
    words = html[start:].partition(">")[2]
    return _lost(html[:start], words) if words else None


def _lost(before: str, tail: str) -> Lost:
    return Lost(words=unescape(TAG.sub(" ", tail)), repaired=before + tail)
