"""The lines of a text, with what the HTML said about each. Pure, linear.

Marks are noncharacters of Unicode, which no text may contain (Unicode 23.7). `mark_quotes` of
`tools.mail.html.quotes` writes them around elements, the plain-text form keeps them, and
`read_lines` takes them out.
"""

import re
from dataclasses import dataclass
from typing import Literal

MARK = re.compile("[\ufdd0-\ufddf]")
# The first character of a pair begins an element, the second ends it.
QUOTE = ("\ufdd0", "\ufdd1")  # an element of a quote
INDENT = ("\ufdd2", "\ufdd3")  # an element that quotes use, and other texts too
WHOLE = ("\ufdd4", "\ufdd5")  # an element with a quote and its attribution, and nothing else
AROUND = ("\ufdd6", "\ufdd7")  # an element with a quote, its attribution, and perhaps answers
HEAD = ("\ufdd8", "\ufdd9")  # an attribution
SIGNATURE = ("\ufdda", "\ufddb")
COLOUR = ("\ufdde", "\ufddf")  # words in a colour that people choose to answer inside an original
COLOUR_MARK = re.compile("([\ufdde\ufddf])")
BELOW = "\ufddc"  # an original begins here, and has no end
FORWARD = "\ufddd"  # a forwarded message begins here
_DEPTHS = {
    mark: (place, step)
    for place, pair in enumerate((QUOTE, INDENT, WHOLE, AROUND, HEAD, SIGNATURE))
    for mark, step in zip(pair, (1, -1), strict=True)
}
_SIGNS = (">", " >", "  >")


Coloured = Literal["", "some", "all"]  # of the words of a line


@dataclass(slots=True, kw_only=True)
class Line:
    """A line of a text without marks, and the elements that it is in."""

    text: str
    has_words: bool = False
    quoted: bool = False
    indented: bool = False
    whole: bool = False
    around: bool = False
    head: bool = False
    signed: bool = False
    coloured: Coloured = ""
    below: bool = False
    forward: bool = False

    @property
    def is_inside(self) -> bool:
        """Return True if the line may belong to a quote."""
        return self.quoted or self.indented or self.whole


def without_marks(text: str) -> str:
    return MARK.sub("", text)


def count_marks(text: str) -> int:
    return sum(1 for _ in MARK.finditer(text))


def read_lines(text: str) -> list[Line]:
    """Return the lines of a text; a mark inside a line divides it, unless it is of a colour."""
    if MARK.search(text) is None:
        return [
            Line(text=row, has_words=_has_words(row), quoted=row.startswith(_SIGNS))
            for row in text.split("\n")
        ]
    depths = [0] * 6
    lines: list[Line] = []
    below = forward = False
    colours = 0
    for given in text.split("\n"):
        before = len(lines)
        row, colours, coloured = _read_colours(given, colours)
        begin = 0
        for mark in (*MARK.finditer(row), None):
            piece = row[begin : mark.start() if mark else len(row)]
            if piece.strip() or (mark is None and len(lines) == before):
                line = _line(piece, depths)
                line.below, line.forward, line.coloured = below, forward, coloured
                below, forward = below and not line.has_words, forward and not line.has_words
                lines.append(line)
            if mark is None:
                break
            begin = mark.end()
            below, forward = below or mark[0] == BELOW, forward or mark[0] == FORWARD
            if mark[0] in _DEPTHS:
                place, step = _DEPTHS[mark[0]]
                depths[place] = max(depths[place] + step, 0)
    _settle_around(lines)
    return lines


def _read_colours(row: str, depth: int) -> tuple[str, int, Coloured]:
    """Return a row without the marks of colours, their depth after it, and which of its words are
    in a colour.
    """
    found = {False: False, True: False}
    pieces = COLOUR_MARK.split(row)
    for piece in pieces:
        if piece in COLOUR:
            depth = max(depth + (1 if piece == COLOUR[0] else -1), 0)
        elif _has_words(without_marks(piece)):
            found[depth > 0] = True
    coloured: Coloured = "" if not found[True] else "some" if found[False] else "all"
    return "".join(pieces[::2]), depth, coloured


def _line(text: str, depths: list[int]) -> Line:
    quote, indent, whole, around, head, signature = (depth > 0 for depth in depths)
    return Line(
        text=text,
        has_words=_has_words(text),
        quoted=quote or text.startswith(_SIGNS),
        indented=indent,
        whole=whole,
        around=around,
        head=head,
        signed=signature,
    )


def _settle_around(lines: list[Line]) -> None:
    """Make an element around a quote one whole quote if nothing in it is marked as quoted."""
    begin = 0
    while begin < len(lines):
        end = begin
        while end < len(lines) and lines[end].around:
            end += 1
        if end > begin and not any(line.quoted or line.indented for line in lines[begin:end]):
            for line in lines[begin:end]:
                line.whole = True
        begin = max(end, begin + 1)


def _has_words(text: str) -> bool:
    return bool(text.strip(" \t\r\xa0>"))
