"""Marks around the quotes of mail programs in HTML, which its plain-text form keeps. Pure, linear.

Each program has names of its own for the elements of a quote: classes, ids, and styles. They are
read from HTML that a parser has put in order, before its attributes are removed.
"""

import re

from tools.mail.html.parser import HtmlParser
from tools.mail.html.tags import VOID
from tools.mail.text.quote_lines import (
    AROUND,
    BELOW,
    COLOUR,
    FORWARD,
    HEAD,
    INDENT,
    MARK,
    QUOTE,
    SIGNATURE,
    WHOLE,
)

Attributes = dict[str, str]

# Names in `class`, `id`, `name` or `data-marker`, in lower case. Outlook on the web puts x_ before
# the names in a mail that it quotes.
QUOTE_NAMES = frozenset(
    "isreplycontent tutanota_quote protonmail_quote qt freshdesk_quote zendesk_quote helpscout_quote".split()
)
WHOLE_NAMES = frozenset(
    "yahoo_quoted messagereplysection olk_src_body_section zmail_extra front-blockquote quote isreplycontent"
    " __quoted_text__ ori_mail mail-editor-reference-message freshdesk_quote airmail_on".split()
)
AROUND_NAMES = frozenset("gmail_quote gmail_quote_container protonmail_quote gmail_extra".split())
HEAD_NAMES = frozenset("gmail_attr moz-cite-prefix reply-intro gmail_quote_attribution".split())
BELOW_NAMES = frozenset(
    "appendonsend divrplyfwdmsg stopspelling mail-editor-reference-message-container replysplit zwchr"
    " divtaghead outlookmessageheader".split()
)
FORWARD_NAMES = frozenset("moz-forward-container isforwardcontent".split())
SIGNATURE_NAMES = frozenset(
    "gmail_signature moz-signature ms-outlook-mobile-signature composer_signature protonmail_signature_block"
    " signature mobile-signature".split()
)
# The line above the header block that Outlook writes; other programs use it too.
BORDER_ABOVE = re.compile(r"border-top: ?(?:solid|#|[\d.]+p[tx] solid)", re.IGNORECASE)
# The colours of the first row in Word, and red and blue of other programs. Outlook writes older
# answers in #1f497d by itself, and links in #0563c1.
CHOSEN_COLOUR = re.compile(
    r"(?:^|[;\s])color: ?(?:red|blue|green|#(?:f00|00f|ff0000|0000ff|c00000|00b050|0070c0|7030a0|008000)\b"
    r"|rgb\((?:255, ?0, ?0|0, ?0, ?255|192, ?0, ?0|0, ?176, ?80|0, ?112, ?192|112, ?48, ?160|0, ?128, ?0)\))",
    re.IGNORECASE,
)
FONT_COLOUR = re.compile(r"red|blue|green|#?(?:ff0000|0000ff|c00000|00b050|0070c0)", re.IGNORECASE)
# A mark of the sender's own, also as a reference. U+FDD0 is 64976.
MARK_IN_HTML = re.compile(
    rf"{MARK.pattern}|&#(?:x0*+fdd[0-9a-f](?![0-9a-f])|0*+649(?:7[6-9]|8\d|9[01])(?!\d));?+",
    re.IGNORECASE,
)
YAHOO = re.compile(r"ydp[0-9a-f]{1,12}(?P<name>yahoo_quoted|signature)(?:_\d+)?")


def mark_quotes(html: str) -> str:
    """Return the HTML with marks around quotes, attributions and signatures."""
    reader = _Marker()
    reader.feed(MARK_IN_HTML.sub("", html))
    reader.close()
    return "".join(reader.out)


class _Marker(HtmlParser):
    """A parser that writes what it reads, with marks as texts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.out: list[str] = []
        self._open: list[tuple[str, str]] = []  # the open elements, and the marks at their ends

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in reversed(attrs)}
        before, inside, after = _marks(tag, given)
        if not after and tag != "a" and "a" not in (name for name, _ in self._open[-3:]):
            inside, after = _colour_marks(given)
        self.out += (before, self.get_starttag_text() or "")
        if tag in VOID:
            return
        self.out.append(inside)
        self._open.append((tag, after))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if self._open:
            self.out.append(self._open.pop()[1])
        self.out.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.out.append(data)

    def handle_entityref(self, name: str) -> None:
        self.out.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.out.append(f"&#{name};")

    def close(self) -> None:
        super().close()
        self.out += [after for _, after in reversed(self._open)]


def _marks(tag: str, given: Attributes) -> tuple[str, str, str]:
    """Return the marks before an element, and at the begin and the end of its content."""
    names = _names(given)
    if names & FORWARD_NAMES:
        return FORWARD, "", ""
    if names & BELOW_NAMES:
        return BELOW, "", ""
    for wanted, pair in ((HEAD_NAMES, HEAD), (SIGNATURE_NAMES, SIGNATURE)):
        if names & wanted:
            return "", *pair
    if tag == "blockquote":
        is_quote = given.get("type", "").lower() == "cite" or names & (QUOTE_NAMES | AROUND_NAMES)
        return "", *(QUOTE if is_quote or names & WHOLE_NAMES else INDENT)
    if names & WHOLE_NAMES:
        return "", *WHOLE
    if names & AROUND_NAMES:
        return "", *AROUND
    if BORDER_ABOVE.search(given.get("style", "")[:500]):
        return BELOW, "", ""
    return "", "", ""


def _colour_marks(given: Attributes) -> tuple[str, str]:
    chosen = CHOSEN_COLOUR.search(given.get("style", "")[:500])
    return COLOUR if chosen or FONT_COLOUR.fullmatch(given.get("color", "")[:20]) else ("", "")


def _names(given: Attributes) -> frozenset[str]:
    written = [given.get("id", ""), given.get("name", ""), given.get("data-marker", "")]
    written += given.get("class", "").split()[:20]
    names = (name.lower()[:60].removeprefix("x_") for name in written if name)
    return frozenset(found["name"] if (found := YAHOO.fullmatch(name)) else name for name in names)
