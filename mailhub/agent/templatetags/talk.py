"""The chat's answers as HTML, and its steps in words."""

import nh3
from django import template
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from tools.catalog.entries import TOOLS

register = template.Library()

# Without links and pictures: the address of a link stays readable text, and nothing is loaded.
_MARKDOWN = (
    MarkdownIt("commonmark", {"html": False, "breaks": True})
    .enable(["table", "strikethrough"])
    .disable(["image", "link", "autolink", "reference", "html_block", "html_inline"])
)
_TAGS = {
    *("p", "br", "strong", "em", "s", "code", "pre", "ul", "ol", "li", "blockquote", "hr"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
# A heading of an answer is no heading of the page.
_HEADINGS = {"heading_open": "<p><strong>", "heading_close": "</strong></p>\n"}
for _rule, _html in _HEADINGS.items():
    _MARKDOWN.renderer.rules[_rule] = lambda *_, html=_html: html  # type: ignore[attr-defined]


@register.filter
def markdown(text: str) -> SafeString:
    """Return the text of a model as HTML without links, pictures, scripts or attributes."""
    return mark_safe(nh3.clean(_MARKDOWN.render(text), tags=_TAGS, attributes={}))  # noqa: S308  # cleaned


@register.filter
def step(tool: str) -> str:
    """Return what a tool did; an unknown name is returned as it is."""
    return str(TOOLS[tool].done) if tool in TOOLS else tool
