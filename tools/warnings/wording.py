"""Warnings about the text, visible or not: hidden text, secrets, orders to a machine, reversed
text.
"""

import re
from html import unescape

from accounts.infra.texts import translatable
from tools.mail.message.compose import OutgoingMessage
from tools.mail.text.characters import invisible_in
from tools.warnings import injections, secrets
from tools.warnings.checks import Found, check
from tools.warnings.context import (
    HTML_CHARACTERS,
    JUDGED_CHARACTERS,
    Context,
    own_words,
    unseen_in,
)

BLANK_LINES = 20  # more than the frame of a mail shows
# Between two words: tags but pictures, and blanks. An empty paragraph or cell has no height.
BLANK_HTML = re.compile(r"(?:<(?!img\b)[^<>]*+>|\s)++", re.IGNORECASE)
LINE_OF_HTML = re.compile(r"<(?:br|hr|/li)\b|>[ \n]*+\xa0|[\xa0 ]{100}+")
CELLS = 10  # empty ones: twenty times as many are as wide as the frame
# Styles and attributes that make a line or a space higher, in pixels but for the first.
HEIGHT = re.compile(
    r"""\b(line-height|height|font-size|cellpadding|(?:padding|margin|border)-(?:top|bottom)|border)"""
    r"""(?::[ ]|=")([0-9]++(?:\.[0-9]++)?)"""
)
LINE_HEIGHT, FONT_SIZE = 1.6, 16.0
# Signs without ink that are no white space for HTML: a line of them is as high as any other.
NO_INK = dict.fromkeys(
    map(ord, "\u1680\u2800\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))), "\xa0"
)
BLANK_TEXT = re.compile(r"\s++")
LINE_OF_TEXT = re.compile(r"\n|[^\S\n]{100}")
MANY_LEFT_OVER = 3  # copied text often has one or two
OVERRIDES = "\u202d\u202e"
OPENING = {
    "\u202a": "\u202c",
    "\u202b": "\u202c",
    "\u2066": "\u2069",
    "\u2067": "\u2069",
    "\u2068": "\u2069",
}


@check(translatable("Hidden text."), translatable("hidden text"), rises=True, of_text=True)
def hidden_text(message: OutgoingMessage, context: Context) -> Found | None:
    """Warn if the proposal hid a part of its text, which is now visible or removed (a high risk in
    a subject, which stays as it is).
    """
    content, subject = message.request.content, message.request.subject
    unseen = unseen_in(content)
    written = content.proposed_html or content.body
    left_over, spelled = invisible_in(unescape(written[:JUDGED_CHARACTERS]))
    in_subject = sum(invisible_in(subject))
    if not unseen and not spelled and left_over < MANY_LEFT_OVER and in_subject < MANY_LEFT_OVER:
        return None
    return Found(
        text=translatable("The subject contains text that its reader would not see.")
        if in_subject
        else translatable(
            "The proposal hid a part of its text from the reader. What you see here is everything that leaves."
        ),
        severity="risk" if in_subject else "notice",
    )


@check(
    translatable("The text goes on after a blank space."), translatable("text after a blank space")
)
def blank_space(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if a part of the text comes after so many blank lines, or so much space, that a person may
    not scroll to it.
    """
    content = message.request.content
    if content.html is None:
        blank, line, text = BLANK_TEXT, LINE_OF_TEXT, content.text
    else:
        blank, line = BLANK_HTML, LINE_OF_HTML
        before, *pres = content.html.replace("&nbsp;", "\xa0").split("<pre")
        text = before + "".join(map(_break_lines, pres))
    text = text[: 2 * HTML_CHARACTERS].translate(NO_INK)
    tallest = 1.0 if content.html is None else _tallest_line(text)
    gaps = (gap[0] for gap in blank.finditer(text) if gap.end() < len(text))
    if not any(
        len(line.findall(gap)) * tallest + gap.count("<td></td>") // CELLS + _lines_of_space(gap)
        >= BLANK_LINES
        for gap in gaps
    ):
        return None
    return translatable("Scroll to its end before you decide: all of it leaves.")


def _tallest_line(html: str) -> float:
    """Return how many usual lines the tallest line of the HTML may be high."""
    tallest = {"line-height": LINE_HEIGHT, "font-size": FONT_SIZE}
    for name, value in HEIGHT.findall(html):
        if name in tallest:
            tallest[name] = max(tallest[name], float(value))
    return tallest["line-height"] * tallest["font-size"] / (LINE_HEIGHT * FONT_SIZE)


def _lines_of_space(gap: str) -> float:
    """Return how many usual lines the heights and margins of a gap may be high."""
    pixels = sum(
        float(value)
        for name, value in HEIGHT.findall(gap)
        if name not in ("line-height", "font-size")
    )
    return pixels / (LINE_HEIGHT * FONT_SIZE)


def _break_lines(html: str) -> str:
    """Return HTML that begins in a `<pre`, where lines break as they are written."""
    lines, ends, rest = html.partition("</pre>")
    return lines.replace("\n", "<br>") + ends + rest


@check(
    translatable("This may be a secret."),
    translatable("contains a secret"),
    severity="risk",
    of_text=True,
)
def secret(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if it seems to hold a key, a token, a password or a card number, in a subject or text
    file too.
    """
    request = message.request
    written = (
        request.content.text[:JUDGED_CHARACTERS]
        if request.kind == "forward"
        else own_words(message, context)
    )
    found = secrets.find_secret(f"{request.subject}\n{written}")
    for attachment in request.attachments:
        if (
            not found
            and len(attachment.content) <= JUDGED_CHARACTERS
            and b"\0" not in attachment.content
        ):
            found = secrets.find_secret(attachment.content.decode("utf-8", "replace"))
    return found


@check(
    translatable("The original mail contains instructions for an AI."),
    translatable("instructions to an AI"),
    severity="risk",
    of_text=True,
)
def injection(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if the mail that is answered or forwarded gives orders to a machine, in hidden text too."""
    if not injections.has_injection(context.prompted_by[:JUDGED_CHARACTERS]):
        return None
    return translatable(
        "Its text tries to tell an assistant what to do. Check that this answer does not do it."
    )


@check(
    translatable("Reordered letters."),
    translatable("reading order is changed"),
    severity="risk",
    of_text=True,
)
def bidi(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if invisible characters turn the order in which a line is read."""
    request = message.request
    names = [
        request.subject,
        request.from_name,
        *(attachment.name for attachment in request.attachments),
    ]
    lines = [*names, *own_words(message, context).split("\n")]
    if not any(_is_turned(line) for line in lines):
        return None
    return translatable("Invisible characters change the order in which a line is read.")


@check(translatable("Parts were removed."), translatable("parts removed"))
def content_removed(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if scripts, forms, or styles that can hide text were removed from the HTML, or an
    original was too long to be quoted as HTML.
    """
    if not message.request.content.content_removed:
        return None
    return translatable(
        "mailhub removed scripts, forms, style sheets, comments or unsafe styles from the HTML."
        " What you see here is what leaves."
    )


def _is_turned(line: str) -> bool:
    """Return True for an override; marks and closed embeddings are usual in right-to-left text."""
    open_: list[str] = []
    for character in line:
        if character in OVERRIDES:
            return True
        if character in OPENING:
            open_.append(OPENING[character])
        elif character in OPENING.values() and (not open_ or open_.pop() != character):
            return True
    return bool(open_)
