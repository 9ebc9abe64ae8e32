"""Python's HTML parser, without the errors that it raises for broken HTML. Pure."""

from collections.abc import Callable
from html.parser import HTMLParser

Attributes = list[tuple[str, str | None]]
COMMENT = "<!--"


class HtmlParser(HTMLParser):
    """A parser that reads `<![…>` as browsers do, as a comment. Python 3.11 raises AssertionError
    for unknown words in it, and one such word would leave only the bare text of a page.
    """

    def parse_html_declaration(self, i: int) -> int:
        if self.rawdata.startswith("<![", i):
            end = self.parse_bogus_comment(i)
            return len(self.rawdata) if end < 0 else end
        return super().parse_html_declaration(i)


class _Tags(HtmlParser):
    def __init__(self, note: Callable[[str, Attributes], None]) -> None:
        super().__init__()
        self._note = note

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        self._note(tag, attrs)

    def handle_comment(self, data: str) -> None:
        self._note(COMMENT, [])


def read_tags(html: str, note: Callable[[str, Attributes], None]) -> None:
    """Call `note` with each start tag and its attributes, and with COMMENT for each comment."""
    _Tags(note).feed(html)
