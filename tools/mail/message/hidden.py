"""The texts that a proposal hid from its reader, and the fate of each.

Pure, linear in the length of the proposal. From the cleaned message a person cannot see which of
its words were meant to stay hidden.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any, Literal

from approvals.core.types import Passage
from tools.mail.html.clean import split_hidden, text_of
from tools.mail.html.parser import HtmlParser
from tools.mail.html.tags import TAG
from tools.mail.message.alternatives import passages
from tools.mail.message.content import Content
from tools.mail.text.characters import spell_tags, without_invisible

# `leaves`: the text leaves, and its reader does not see it. `shown`: it leaves, and is visible now.
# `removed`: it does not leave.
Fate = Literal["leaves", "shown", "removed"]
HTML_CHARACTERS = 500_000  # of HTML that is parsed
MOST_TEXTS = 20
MOST_CHARACTERS = 300  # of one text
# The cleaning removes these with their text. Scripts and style sheets contain no text for a reader.
_REMOVED_WITH_TEXT = frozenset("noscript template svg math iframe object select".split())


@dataclass(frozen=True, kw_only=True)
class HiddenText:
    """One hidden text; `cut` if only its beginning is kept."""

    text: str
    fate: Fate
    cut: bool = False


def hidden_texts(content: Content, subject: str = "") -> tuple[HiddenText, ...]:
    """Return the first texts that the proposal hid: invisible characters, hidden HTML, removed
    HTML.
    """
    proposed = content.proposed_html[:HTML_CHARACTERS]
    found: list[tuple[str, Fate]] = [
        (spell_tags(subject), "leaves"),
        (spell_tags(unescape((proposed or content.body)[:HTML_CHARACTERS])), "removed"),
    ]
    if proposed:
        visible = _squeeze(
            content.text if content.html is None else text_of(content.html[: 2 * HTML_CHARACTERS])
        )
        unseen = split_hidden(proposed).unseen
        found += [(text, "shown" if _squeeze(text) in visible else "removed") for text in unseen]
        found += [
            (text, "removed") for text in _find_removed(proposed) if _squeeze(text) not in visible
        ]
    return _limit(found)


def as_parts(texts: Iterable[HiddenText]) -> list[dict[str, Any]]:
    """Return the texts as JSON, for the `parts` of a preview."""
    return [{"text": each.text, "fate": each.fate, "cut": each.cut} for each in texts]


def unseen_texts(html: str) -> tuple[str, ...]:
    """Return the first texts of HTML that its reader would not see."""
    texts = [(text, "leaves") for text in split_hidden(html[:HTML_CHARACTERS]).unseen]
    return tuple(each.text for each in _limit(texts))


def compare_parts(text: str, html: str) -> tuple[tuple[Passage, ...], tuple[str, ...]]:
    """Return the differences of text and HTML, and `unseen_texts` of the HTML: one job for a
    limited process.
    """
    return passages(text, html), unseen_texts(html)


def _limit(found: Sequence[tuple[str, Any]]) -> tuple[HiddenText, ...]:
    texts = list(dict.fromkeys((text, fate) for text, fate in found if text))[:MOST_TEXTS]
    return tuple(
        HiddenText(text=text[:MOST_CHARACTERS], fate=fate, cut=len(text) > MOST_CHARACTERS)
        for text, fate in texts
    )


def _squeeze(text: str) -> str:
    return "".join(without_invisible(text).split())


def _find_removed(html: str) -> list[str]:
    """Return the texts of comments, and of elements that the cleaning removes with their text."""
    reader = _Removed()
    reader.feed(html)
    reader.close()
    return reader.found


class _Removed(HtmlParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _REMOVED_WITH_TEXT:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Ignore an element without content, such as `<rect/>` in a picture."""

    def handle_endtag(self, tag: str) -> None:
        if self._open and tag == self._open[-1]:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self.cdata_elem is None:
            self._note(data)

    def handle_comment(self, data: str) -> None:
        self._note(unescape(TAG.sub(" ", data)))

    def _note(self, text: str) -> None:
        words = " ".join(without_invisible(text).split())
        if words and len(self.found) < MOST_TEXTS:
            self.found.append(words)
