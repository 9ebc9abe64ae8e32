"""The uses of foreign HTML, each as one job for a limited process.

The functions above the line are the jobs. Those below it are for callers: they raise Unparsable, or
their result says that only the bare text could be read. If no process is free in time, all of them
raise Unparsable.
"""

from typing import Literal

from approvals.core.types import Passage
from tools.mail.html.clean import clean_html, text_of
from tools.mail.html.nesting import check_depth
from tools.mail.html.tags import bare_text
from tools.mail.message.content import Content, Original, build_answer, build_forward, own_content
from tools.mail.message.hidden import HiddenText, compare_parts, hidden_texts
from tools.mail.message.page_text import HTML_CHARACTERS, show_visible
from tools.mail.parsers import Unparsable, is_small, run
from tools.mail.text.decoding import without_controls


def clean_page(html: str) -> str:
    page = without_controls(clean_html(html))  # a reference such as &#1; names one
    check_depth(page)
    return page


def clean_visible_page(html: str) -> str:
    return clean_page(show_visible(html)[0])


def page_and_text(html: str) -> tuple[str, str]:
    page = clean_page(html)
    return page, text_of(page)


def own_html(body: str, body_type: Literal["html", "markdown"]) -> Content:
    content = own_content(body, body_type)
    check_depth(content.html or "")
    return content


# --------------------------------------------------------------------------------------------------


def author_content(body: str, body_type: Literal["text", "html", "markdown"]) -> Content:
    """Return the caller's own content. Raises Unparsable for HTML that cannot be read safely."""
    if body_type == "text":
        return own_content(body, "text")
    # Short Markdown can take long too.
    return run(own_html, body, body_type, small=body_type == "html" and is_small(body))


def answer_content(comment: Content, original: Original) -> Content:
    """Return the comment above the quoted original. Raises Unparsable."""
    return run(build_answer, comment, original, small=is_small(comment.html, original.html))


def forward_content(comment: Content | None, original: Original) -> Content:
    """Return the comment, if any, above the original. Raises Unparsable."""
    return run(build_forward, comment, original, small=is_small(original.html))


def page_for_reader(html: str, *, with_hidden: bool) -> str:
    """Return clean HTML, or its bare text below a note."""
    try:
        return run(clean_page if with_hidden else clean_visible_page, html, small=is_small(html))
    except Unparsable as error:
        error.raise_if_busy()
        return bare_text(html)


def original_content(text: str | None, html: str | None) -> tuple[str, str | None]:
    """Return the text and the clean HTML of a mail that is answered or forwarded.

    HTML that cannot be read safely is left out, and the text says so.
    """
    if html is None:
        return text or "", None
    try:
        clean, of_html = run(page_and_text, html, small=is_small(html))
    except Unparsable as error:
        error.raise_if_busy()
        bare = bare_text(html)
        return (f"{text}\n\n{bare}" if text else bare), None
    return (of_html if text is None else text), clean


def whole_text(html: str) -> str:
    """Return all text of HTML, hidden text included, or its bare text."""
    try:
        return run(page_and_text, html[:HTML_CHARACTERS], small=is_small(html))[1]
    except Unparsable as error:
        error.raise_if_busy()
        return bare_text(html)


def compare_texts(text: str, html: str) -> tuple[tuple[Passage, ...], tuple[str, ...]]:
    """Return the differences of text and HTML, and the texts of the HTML that its reader would not
    see.

    If they cannot be compared in time, the whole text counts as different.
    """
    try:
        return run(compare_parts, text, html, small=is_small(text, html))
    except Unparsable:
        return (Passage(text=text, only_here=True),), ()


def find_hidden(content: Content, subject: str) -> tuple[HiddenText, ...]:
    """Return the texts that a proposal hid. Raises Unparsable."""
    small = is_small(content.body, content.html, content.proposed_html)
    return run(hidden_texts, content, subject, small=small)
