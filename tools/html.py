"""HTML of a message that is to leave: cleaned once, at the proposal; what is stored, shown and sent is the result.

Also the plain-text reading of HTML, whoever wrote it. Pure.
"""

from collections import Counter
from html.parser import HTMLParser

import nh3
from inscriptis import get_text
from inscriptis.model.config import ParserConfig

# What a style may say: nothing that can load, cover or hide.
_KEPT_STYLES = set(
    """
    background-color border border-bottom border-collapse border-color border-left border-radius
    border-right border-spacing border-style border-top border-width color direction font
    font-family font-size font-style font-weight height letter-spacing line-height list-style-type
    margin margin-bottom margin-left margin-right margin-top max-width min-width padding
    padding-bottom padding-left padding-right padding-top text-align text-decoration text-indent
    text-transform vertical-align white-space width word-break word-spacing
    """.split()
)
_ATTRIBUTES = {
    **nh3.ALLOWED_ATTRIBUTES,
    "*": {"style", "dir", "lang", "title", "align", "valign", "width", "height", "bgcolor"},
    "table": nh3.ALLOWED_ATTRIBUTES.get("table", set()) | {"cellpadding", "cellspacing", "border", "role"},
    "font": {"color", "size", "face"},
}
_TAGS = (nh3.ALLOWED_TAGS | {"font", "tt", "big"}) - {"map", "area"}
_WITH_CONTENT = {"script", "style", "title", "noscript", "template", "svg", "math", "iframe", "object", "select"}
WRITTEN_OUT = {("a", "href"), ("img", "src"), ("img", "alt")}
# What a parser adds or drops without anybody losing anything.
_SCAFFOLD = {"html", "head", "body", "tbody", "meta", "title", "colgroup"}


def cleaned(html: str) -> str:
    """The HTML without scripts, handlers, forms, frames, styles sheets, comments and dangerous styles."""
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        clean_content_tags=_WITH_CONTENT,
        filter_style_properties=_KEPT_STYLES,
        url_schemes={"http", "https", "mailto", "tel", "cid"},
        link_rel=None,
        strip_comments=True,
    )


def text_of(html: str) -> str:
    """The plain-text reading of HTML; a nesting too deep for the renderer falls back to the bare text."""
    # The renderer decodes once more what its parser has decoded: "&amp;lt;" is the text "&lt;", and no tag.
    once = html.replace("&amp;", "&amp;amp;")
    try:
        return str(get_text(once, ParserConfig(display_links=False))).strip("\n")
    except RecursionError:
        return nh3.clean(html, tags=set(), clean_content_tags=_WITH_CONTENT).strip()


def attribute_values(html: str) -> list[str]:
    """Return the targets of links, and the sources and names of pictures."""
    reader = _Values()
    reader.feed(html)
    return reader.found


class _Values(HTMLParser):
    """Collects the attributes that a plain-text version of HTML writes out."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if value and (tag, name) in WRITTEN_OUT]


def lost_something(before: str, after: str) -> bool:
    """Whether cleaning took away more than a browser would not miss."""
    tallies = []
    for html in (before, after):
        tally = _Tally()
        tally.feed(html)
        tallies.append(tally.counts)
    return bool(tallies[0] - tallies[1])


class _Tally(HTMLParser):
    """Counts tags, attributes and comments."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.counts: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _SCAFFOLD and (given.get("http-equiv") or "content-type").lower() == "content-type":
            return
        self.counts[tag] += 1
        self.counts.update(f"{tag} {name}" for name in given if name not in ("class", "style"))
        declarations = (given.get("style") or "").split(";")
        self.counts.update(f"style {d.partition(':')[0].strip().lower()}" for d in declarations if d.strip())

    def handle_comment(self, data: str) -> None:
        self.counts["<!--"] += 1
