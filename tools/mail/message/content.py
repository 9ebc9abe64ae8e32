"""The content of a message: its text and its HTML, new, as an answer, or as a forward. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from html import escape, unescape
from typing import Literal

from tools.mail.html.clean import clean, clean_html, text_of
from tools.mail.text.characters import without_invisible

QUOTED_CHARACTERS = 500_000  # of HTML in an original; a newsletter has a tenth of it
ANSWER_LINE = re.compile(r"On .{1,2000} wrote:")


@dataclass(frozen=True, kw_only=True)
class Content:
    """The text of a mail: `body` as the caller wrote it, `text` and clean `html` as they will be
    sent.

    `proposed_html` is the caller's HTML, which the warnings judge; it is empty if the caller wrote
    text. `has_original` is True if everything else in `html` is from the original mail.
    """

    body: str
    text: str
    html: str | None = None
    proposed_html: str = ""
    has_original: bool = False
    content_removed: bool = False


@dataclass(frozen=True, kw_only=True)
class Original:
    """The message that is answered or forwarded, as its provider returned it."""

    message_id: str
    references: tuple[str, ...]
    from_address: str
    from_name: str
    reply_to: tuple[str, ...]
    to: tuple[str, ...]
    cc: tuple[str, ...]
    subject: str
    date: datetime | None
    text: str
    html: str | None
    is_signed: bool = False
    left_behind: str = ""  # what a forward of it does not have
    names: Mapping[str, str] = field(default_factory=dict)  # by address in lower case


def own_content(body: str, body_type: Literal["text", "html", "markdown"]) -> Content:
    """Return only the caller's own content. Markdown becomes HTML, and is cleaned like all HTML."""
    if body_type == "text":
        return Content(body=body, text=without_invisible(body))
    page = _from_markdown(body) if body_type == "markdown" else body
    found = clean(page)
    return Content(
        body=body,
        text=text_of(found.html),
        html=found.html,
        proposed_html=page,
        content_removed=found.removed,
    )


def _from_markdown(text: str) -> str:
    """Return the HTML of Markdown with tables. Tags in it stay visible text, so nothing is lost."""
    from markdown_it import MarkdownIt  # only for this kind of text

    rules = MarkdownIt("commonmark", {"html": False, "breaks": True})
    return str(rules.enable(["table", "strikethrough"]).disable(["image"]).render(text))


def build_answer(comment: Content, original: Original) -> Content:
    """Return the comment above the quoted original, also as HTML if either is HTML.

    An HTML original is quoted from its HTML in both parts, because its own plain text may be
    different.
    """
    line = f"On {_date_of(original)}, {_author_of(original)} wrote:"
    page = _page(original)
    text = original.text if page is None else text_of(page)
    quoted = "\n".join(f"> {row}" if row else ">" for row in text.rstrip("\n").split("\n"))
    return _with_original(comment, original, f"{line}\n{quoted}", f"<p>{escape(line)}</p>", page)


def find_quote(text: str, comment: str) -> str:
    """Return the quote that `build_answer` put at the end of `text`, with the line above it.

    Return "" if the text has no quote, or if the comment has the same lines: its author wrote those.
    """
    lines = text.rstrip("\n").split("\n")
    first = len(lines)
    while first and lines[first - 1].startswith(">"):
        first -= 1
    if not 0 < first < len(lines) or not ANSWER_LINE.fullmatch(lines[first - 1]):
        return ""
    quote = "\n".join(lines[first - 1 :])
    written = unescape(comment.replace("<br>", "\n"))
    return "" if _without_space(quote) in _without_space(written) else quote


def without_quote(text: str, quote: str) -> str:
    """Return the text without this very quote: the same words, with or without `>` before them."""
    line, _, below = quote.partition("\n")
    begin = text.rfind(line) if quote else -1
    if begin < 0:
        return text
    wanted = _without_space(re.sub(r"(?m)^> ?", "", below))
    end = begin + len(line)
    starts_line = True
    for letter in wanted:
        while end < len(text) and (text[end].isspace() or (text[end] == ">" and starts_line)):
            starts_line = text[end] == "\n" or (starts_line and text[end].isspace())
            end += 1
        if end == len(text) or text[end] != letter:
            return text
        starts_line = False
        end += 1
    return f"{text[:begin]}\n{text[end:]}"


def _without_space(text: str) -> str:
    return "".join(text.split())


def build_forward(comment: Content | None, original: Original) -> Content:
    """Return the comment, if any, above the original with its main headers.

    The original keeps its own plain text and its own HTML: the warnings compare them.
    """
    head = [
        "---------- Forwarded message ----------",
        f"From: {_author_of(original)}",
        f"Date: {_date_of(original)}",
        f"Subject: {original.subject}",
        f"To: {', '.join(original.to)}",
    ]
    head += [f"Cc: {', '.join(original.cc)}"] if original.cc else []
    text = "\n".join([*head, "", original.text.rstrip("\n")])
    html = "<p>" + "<br>".join(escape(row) for row in head) + "</p>"
    return _with_original(
        comment or Content(body="", text=""), original, text, html, _page(original)
    )


def _page(original: Original) -> str | None:
    """Return the cleaned HTML of the original; HTML that is too long to judge is quoted as text
    only.
    """
    if original.html is None or len(original.html) > QUOTED_CHARACTERS:
        return None
    return clean_html(original.html)


def _with_original(
    comment: Content, original: Original, text: str, head: str, page: str | None
) -> Content:
    joined = f"{comment.text}\n\n{text}\n" if comment.text else f"{text}\n"
    removed = comment.content_removed or (page is None and original.html is not None)
    if comment.html is None and page is None:
        return Content(body=comment.body, text=joined, content_removed=removed)
    own = comment.html if comment.html is not None else as_html(comment.text)
    quoted = page if page is not None else as_html(original.text)
    return Content(
        body=comment.body,
        text=joined,
        html=f"{own}{head}<blockquote>{quoted}</blockquote>",
        proposed_html=comment.proposed_html,
        has_original=True,
        content_removed=removed,
    )


def as_html(text: str) -> str:
    """Return the text as paragraphs of HTML."""
    return "".join(
        f"<p>{escape(part).replace(chr(10), '<br>')}</p>"
        for part in text.split("\n\n")
        if part.strip()
    )


def _author_of(original: Original) -> str:
    return (
        f"{original.from_name} <{original.from_address}>"
        if original.from_name
        else original.from_address
    )


def _date_of(original: Original) -> str:
    return original.date.strftime("%a, %d %b %Y at %H:%M %z") if original.date else "an unknown day"
