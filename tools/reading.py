"""What a message says to its reader: hidden text taken out, quotes folded. Pure.

A mail can hold text that no person sees and every program reads. It is removed here, and that is said.
"""

import re
from dataclasses import dataclass

import lxml.html
from lxml.etree import ParserError

from tools.html import cleaned, text_of
from tools.providers.base import Message

HTML_CHARACTERS = 500_000  # parsing is capped first: a megabyte of HTML costs a tenth of a second
# Possessive: a style is foreign text, and backtracking over its blanks and digits would take quadratic time.
HIDING = re.compile(
    r"display\s*+:\s*+none|visibility\s*+:\s*+(hidden|collapse)|mso-hide\s*+:\s*+all"
    r"|opacity\s*+:\s*+0(\.0*+)?\s*+(;|!|$)|font-size\s*+:\s*+[01](\.\d*+)?\s*+(px|pt|em|rem|%)?\s*+(;|!|$)"
    r"|max-height\s*+:\s*+0(px)?\s*+(;|!|$)|(^|;)\s*+(height|width)\s*+:\s*+0(px)?\s*+(;|!|$)"
    r"|text-indent\s*+:\s*+-\d{3,}+|left\s*+:\s*+-\d{3,}+",
    re.IGNORECASE,
)
WHITE = re.compile(
    r"(^|;)\s*+color\s*+:\s*+(#fff(fff)?|white|rgb\(\s*+255\s*+,\s*+255\s*+,\s*+255\s*+\))\s*+(;|!|$)", re.IGNORECASE
)
BACKGROUND = re.compile(r"background", re.IGNORECASE)
# Invisible in every font: what they spell is for programs alone. Joiners inside words and emoji stay.
TAGS = re.compile("[\U000e0000-\U000e007f]+")
INVISIBLE = re.compile("[\u200b\u2060\ufeff\u00ad\u034f]|[\u200c\u200d]{2,}|(?<=[\\s\u00a0])[\u200c\u200d]")
JOINERS = re.compile("[\u200c\u200d]")
QUOTED = re.compile(r"(?m)^(?:>.*(?:\n|$)){3,}")


@dataclass(frozen=True, kw_only=True)
class Readable:
    text: str
    hidden_text_removed: bool = False


def readable(message: Message) -> Readable:
    """The text of a message for a reader: its plain part, else its HTML as text."""
    if message.text is not None:
        return _finished(message.text, hidden=False)
    page, hidden = visible(message.html or "")
    return _finished(text_of(cleaned(page)), hidden=hidden)


def visible(html: str) -> tuple[str, bool]:
    """The HTML without the elements that no person sees, and whether any of them held text."""
    html = html[:HTML_CHARACTERS]
    try:
        root = lxml.html.fromstring(html)
    except (ParserError, ValueError):
        return html, False
    removed = False
    for element in [each for each in root.iter() if isinstance(each, lxml.html.HtmlElement)]:
        if element.getparent() is None or not _hidden(element):
            continue
        removed = removed or bool(JOINERS.sub("", INVISIBLE.sub("", element.text_content())).strip())
        element.drop_tree()
    return lxml.html.tostring(root, encoding="unicode"), removed


def _hidden(element: lxml.html.HtmlElement) -> bool:
    style = element.get("style") or ""
    if "hidden" in element.attrib or HIDING.search(style):
        return True
    if not WHITE.search(style):
        return False
    # White is hidden on white only: something behind it may be dark.
    return not any(
        BACKGROUND.search(each.get("style") or "") or each.get("bgcolor") or each.get("background")
        for each in (element, *element.iterancestors())
    )


def _finished(text: str, *, hidden: bool) -> Readable:
    spoken = TAGS.sub("", text)
    hidden = hidden or spoken != text
    folded = QUOTED.sub(
        lambda match: f"[{match[0].rstrip().count(chr(10)) + 1} quoted lines]\n", INVISIBLE.sub("", spoken)
    )
    return Readable(text=re.sub(r"\n{3,}", "\n\n", folded).strip("\n"), hidden_text_removed=hidden)
