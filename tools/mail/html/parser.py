"""Python's HTML parser, without the errors that it raises for broken HTML. Pure."""

from html.parser import HTMLParser


class HtmlParser(HTMLParser):
    """A parser that reads `<![…>` as browsers do, as a comment. Python 3.11 raises AssertionError
    for unknown words in it, and one such word would leave only the bare text of a page.
    """

    def parse_html_declaration(self, i: int) -> int:
        if self.rawdata.startswith("<![", i):
            end = self.parse_bogus_comment(i)
            return len(self.rawdata) if end < 0 else end
        return super().parse_html_declaration(i)
