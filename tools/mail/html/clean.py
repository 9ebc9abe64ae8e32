"""The HTML of a message that is to leave: cleaned once, at the proposal; the result is stored,
shown and sent.

Also the visible part of foreign HTML, and the plain-text form of both. Pure. The parsers are imported
at the first use: a worker and a stdio server seldom need them, and they take 8 MB.
"""

import re
from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import nh3

from tools.mail.html.parser import Attributes, read_tags
from tools.mail.html.tags import VOID

if TYPE_CHECKING:
    from tools.mail.html.visibility import Seen

# Attributes by name; tools.mail.html.properties decides which values may stay.
_ATTRIBUTES = {
    "*": {"style", "dir", "lang", "align", "valign", "width", "height", "bgcolor"},
    "a": {"href"},
    "img": {"src", "alt", "border"},
    "table": {"cellpadding", "cellspacing", "border", "role"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
    "col": {"span"},
    "colgroup": {"span"},
    "hr": {"size", "color"},
    "ol": {"start"},
    "font": {"color", "size", "face"},
}
# Tags that hide their content (details, ruby) or reverse it (bdo); they are removed below.
_HIDING_TAGS = set("area bdo details map rp rt rtc ruby summary".split())
_TAGS = (nh3.ALLOWED_TAGS | {"font", "tt", "big"}) - _HIDING_TAGS
_WITH_CONTENT = {
    "script",
    "style",
    "title",
    "noscript",
    "template",
    "svg",
    "math",
    "iframe",
    "object",
    "select",
}
_SEEN_BY = {"style", "class", "id", "hidden", "open", "dir", "lang", "bgcolor", "background", "color", "size", "align",
            "valign", "width", "height", "href", "src", "alt", "cellpadding", "cellspacing", "border",
            "colspan", "rowspan", "face", "start", "type", "name", "data-marker"}  # fmt: skip
WRITTEN_OUT = {("a", "href"), ("img", "src"), ("img", "alt")}
# A parser may add or drop these without any loss.
_SCAFFOLD = {"html", "head", "body", "tbody", "meta", "title", "colgroup"}
_SCHEMES = {"http", "https", "mailto", "tel", "cid"}
# A fragment has no body of its own: its background would be lost, and light text on it would count
# as hidden.
_BODY = re.compile(r"<body(?=[\s/])", re.IGNORECASE)
# An empty element marks a body while the bodies are searched, because mail does not use it.
_MARK = "basefont"
_MARK_OF_OTHERS = re.compile(rf"<(?={_MARK})", re.IGNORECASE)
_TAG_NAME = re.compile(r"<([a-z][^\s/>\x00]{0,60})", re.IGNORECASE)
MOST_TAG_NAMES = 200
# Depth of nested elements. Parsers take quadratic time for more, and nobody sees the difference.
DEEPEST = 256
_TAG = re.compile(r"<(/?)([a-z][^\s/>\x00]{0,60})[^<>]{0,20000}>", re.IGNORECASE)
# These elements end by themselves, or cannot hold another of their kind.
_ENDS_ITSELF = frozenset("p li dt dd td th tr tbody thead tfoot option".split()) | VOID


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """The cleaned HTML, which may leave. `removed`: something was removed that a browser would
    show.
    """

    html: str
    removed: bool


def clean(html: str) -> Cleaned:
    """Return the HTML without any part that runs, loads by itself, or hides something."""
    from tools.mail.html.legibility import make_legible

    allowed = nh3.clean(
        _prepare(html),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        clean_content_tags=_WITH_CONTENT,
        url_schemes=_SCHEMES,
        link_rel=None,
        strip_comments=True,
    )
    found = make_legible(allowed)
    return Cleaned(html=found.html, removed=found.changed or _has_lost_something(html, allowed))


def clean_html(html: str) -> str:
    """Return only the HTML of `clean`."""
    return clean(html).html


def split_hidden(html: str) -> "Seen":
    """Return the part of foreign HTML that a person sees, not yet cleaned, and the hidden text."""
    from tools.mail.html.visibility import remove_hidden

    return remove_hidden(html)


def normalize(html: str) -> str:
    """Return foreign HTML as a browser's parser understands it, with its styles and all elements
    but scripts.

    It is for judging only: it must not be shown or sent.
    """
    # Any element can be hidden, even one that browsers do not know.
    names = {match[1].lower() for match in _TAG_NAME.finditer(html)}
    tags = _TAGS | set(sorted(names)[:MOST_TAG_NAMES]) - _WITH_CONTENT
    return nh3.clean(
        _prepare(html),
        tags=tags | _HIDING_TAGS,
        attributes={"*": _SEEN_BY},
        clean_content_tags=_WITH_CONTENT,
        url_schemes=_SCHEMES,
        link_rel=None,
        strip_comments=True,
    )


def _prepare(html: str) -> str:
    """Return the HTML with its body as a block, and without elements that are nested too deep;
    texts stay.
    """
    html = _with_body_as_block(html)
    if html.count("<") <= DEEPEST:
        return html
    depth = 0

    def flatten(tag: re.Match[str]) -> str:
        nonlocal depth
        if tag[2].lower() in _ENDS_ITSELF:
            return tag[0]
        depth = max(0, depth - 1) if tag[1] else depth + 1
        return tag[0] if depth + bool(tag[1]) < DEEPEST else ""

    return _TAG.sub(flatten, html)


def _with_body_as_block(html: str) -> str:
    """Return the HTML inside a block that has the attributes of its body.

    A body in a comment or an attribute does not count. If there are several, the first one wins for
    each attribute, and its end tag ends nothing: browsers do the same.
    """
    if _BODY.search(html) is None:
        return html
    # The empty block ends elements that a body would end too, such as a picture.
    marked = _BODY.sub(f"<div></div><{_MARK}", _MARK_OF_OTHERS.sub("<x-", html))
    bodies = nh3.clean(
        marked, tags={_MARK}, attributes={_MARK: _SEEN_BY}, clean_content_tags=_WITH_CONTENT
    )
    given: dict[str, str] = {}

    def note(tag: str, attrs: Attributes) -> None:
        for name, value in attrs if tag == _MARK else ():
            given.setdefault(name, value or "")

    read_tags(bodies, note)
    if not given:
        return html
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in given.items())
    return f"<div{attributes}>{html}"


def text_of(html: str) -> str:
    """Return the plain-text form of HTML; if it is nested too deep for the renderer, only the bare
    text.
    """
    from inscriptis import get_text
    from inscriptis.model.config import ParserConfig

    # The renderer decodes a second time: "&amp;lt;" is the text "&lt;", and no tag.
    once = html.replace("&amp;", "&amp;amp;")
    try:
        return str(get_text(once, ParserConfig(display_links=False))).strip("\n")
    except RecursionError:
        return nh3.clean(html, tags=set(), clean_content_tags=_WITH_CONTENT).strip()


def attribute_values(html: str) -> list[str]:
    """Return the targets of links, and the sources and names of pictures."""
    found: list[str] = []

    def note(tag: str, attrs: Attributes) -> None:
        found.extend(value for name, value in attrs if value and (tag, name) in WRITTEN_OUT)

    read_tags(html, note)
    return found


def _has_lost_something(before: str, after: str) -> bool:
    """Return True if tags, attributes or comments were removed that a browser would show."""
    return bool(_tally(before) - _tally(after))


def _tally(html: str) -> Counter[str]:
    """Return how often each tag and attribute occurs, and comments."""
    counts: Counter[str] = Counter()

    def note(tag: str, attrs: Attributes) -> None:
        given = dict(attrs)
        if (
            tag in _SCAFFOLD
            and (given.get("http-equiv") or "content-type").lower() == "content-type"
        ):
            return
        counts["div" if tag == "body" else tag] += 1
        counts.update(f"{tag} {name}" for name in given if name not in ("class", "style"))

    read_tags(html, note)
    return counts
