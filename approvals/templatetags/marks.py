"""Marked parts of a text, without the line breaks that a template would put between them."""

from collections.abc import Iterable

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from approvals.core.types import Passage
from approvals.gate.differences import Piece

register = template.Library()

LONG = 600  # of an unchanged piece, the page shows both ends
END = 250


@register.filter
def marked(pieces: Iterable[Piece]) -> SafeString:
    """Return a changed text as HTML, with its added and removed pieces."""
    return format_html_join("", "{}", ((_mark(piece),) for piece in pieces))


def _mark(piece: Piece) -> str:
    if piece.sort == "added":
        return format_html("<ins>{}</ins>", piece.text)
    if piece.sort == "removed":
        return format_html("<del>{}</del>", piece.text)
    if len(piece.text) > LONG:
        return f"{piece.text[:END]} … {piece.text[-END:]}"
    return piece.text


@register.filter
def only_here(passages: Iterable[Passage], cut: int) -> SafeString:
    """Return the plain text as HTML. Words that the HTML part lacks are marked.

    `cut` is the most characters of each passage.
    """
    forms = {True: "<mark>{}</mark>", False: "{}"}
    shown = (format_html(forms[each.only_here], each.text[:cut]) for each in passages)
    return format_html_join("", "{}", ((each,) for each in shown))
