"""The boxes of a page that have lines of their own: cells, and items of lists. Pure.

A box that ends hands its lines to the box around it. An element that is nested too deep opens no box
of its own, so that no line is handed on too often.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accounts.infra.foreign_text import parse_number
from tools.mail.html.lines import Lines
from tools.mail.html.tables import Cell, Table

DEEPEST = 40
DEEPEST_INDENT = 10
LARGEST_NUMBER = 99_999
Leave = Callable[[], None]
Given = Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class _List:
    """An open list. `style` is the kind of its numbers or marks."""

    style: str
    next: int = 1
    step: int = 1


class Boxes:
    """The open boxes. `lines` are those of the innermost one."""

    def __init__(self) -> None:
        self.lines = Lines()
        self._outer: list[Lines] = []
        self._nests = [False]  # for each open box: it holds a list, or a table of several rows
        self._tables: list[Table | None] = []
        self._lists: list[_List] = []
        self._items: list[int] = []  # for each open item: the number of boxes around its content
        self._indents = 0

    def begin(self, tag: str, attributes: Given, style: Given) -> Leave:
        """Begin a box, or what one consists of, and return what ends it."""
        match tag:
            case "table":
                return self._begin_table(attributes)
            case "tr":
                return self._begin_row()
            case "td" | "th":
                return self._begin_cell(tag, attributes)
            case "ul" | "ol" | "dir" | "menu":
                return self._begin_list(tag, attributes, style)
            case "li":
                return self._begin_item(attributes, style)
            case _:
                return self._begin_indented("  ", "  ")

    def _push(self) -> None:
        self._outer.append(self.lines)
        self._nests.append(False)
        self.lines = Lines()

    def _pop(self) -> tuple[list[str], bool]:
        lines = self.lines.finish()
        self.lines = self._outer.pop()
        nests = self._nests.pop()
        self._nests[-1] = self._nests[-1] or nests
        return lines, nests

    def _begin_block(self) -> Leave:
        lines = self.lines
        lines.end_line()
        return lines.end_line

    def _begin_table(self, attributes: Given) -> Leave:
        self.lines.end_line()
        deep = len(self._outer) >= DEEPEST
        layout = attributes.get("role", "").lower() in ("presentation", "none")
        self._tables.append(None if deep else Table(layout=layout))
        return self._end_table

    def _end_table(self) -> None:
        table = self._tables.pop()
        if table is None:
            self.lines.end_line()
            return
        lines, is_data = table.lines()
        self.lines.add_block(lines, apart=is_data)
        if len(lines) > 1:
            self._nests[-1] = True

    def _begin_row(self) -> Leave:
        if not self._tables or (table := self._tables[-1]) is None:
            return self._begin_block()
        table.rows.append([])
        return _nothing

    def _begin_cell(self, tag: str, attributes: Given) -> Leave:
        if not self._tables or (table := self._tables[-1]) is None or not table.rows:
            return self._begin_block()
        self._push()

        def end() -> None:
            lines, nests = self._pop()
            table.rows[-1].append(
                Cell(
                    lines=lines,
                    head=tag == "th",
                    columns=_whole(attributes.get("colspan", ""), 1),
                    rows=_whole(attributes.get("rowspan", ""), 1),
                    nests=nests,
                )
            )

        return end

    def _begin_list(self, tag: str, attributes: Given, style: Given) -> Leave:
        numbered = tag == "ol"
        kind = style.get("list-style-type") or style.get("list-style") or attributes.get("type", "")
        if "none" in kind.split():
            kind = "none"
        elif not kind or kind in ("inside", "outside"):
            kind = "1" if numbered else "-"
        step = -1 if "reversed" in attributes else 1
        first = _whole(attributes.get("start", ""), 1)
        opened = _List(style=kind, next=first, step=step)
        # Some programs put a list directly into a list: it is indented without an item.
        in_item = self._items[-1:] == [len(self._outer)]
        nested = bool(self._lists)
        leave = self._begin_indented("  ", "  ") if nested and not in_item else None
        begin_or_end = self.lines.end_line if nested else self.lines.add_gap
        begin_or_end()
        self._lists.append(opened)

        def end() -> None:
            self._lists.pop()
            begin_or_end()
            if leave is not None:
                leave()
            self._nests[-1] = True

        return end

    def _begin_item(self, attributes: Given, style: Given) -> Leave:
        mark = "- "
        if self._lists:
            opened = self._lists[-1]
            number = _whole(attributes.get("value", ""), opened.next)
            opened.next = number + opened.step
            mark = _mark(opened.style, number)
        if "none" in (style.get("list-style-type") or style.get("list-style") or "").split():
            mark = ""
        leave = self._begin_indented(mark, " " * len(mark))
        self._items.append(len(self._outer))

        def end() -> None:
            self._items.pop()
            leave()

        return end

    def _begin_indented(self, first: str, others: str) -> Leave:
        if len(self._outer) >= DEEPEST:
            return self._begin_block()
        self.lines.end_line()
        self._push()
        self._indents += 1
        shown = self._indents <= DEEPEST_INDENT

        def end() -> None:
            self._indents -= 1
            lines, _ = self._pop()
            if shown:
                starts = [first, *[others] * (len(lines) - 1)]
                lines = [f"{a}{b}".rstrip() for a, b in zip(starts, lines, strict=False)]
            self.lines.add_block(lines)

        return end


def _nothing() -> None:
    """End something that needs no end."""


def _whole(given: str, otherwise: int) -> int:
    text = given.strip()
    number = parse_number(text.removeprefix("-")[:6])
    if number is None:
        return otherwise
    return min(LARGEST_NUMBER, number) * (-1 if text.startswith("-") else 1)


def _mark(style: str, number: int) -> str:
    """Return the mark of an item, with the space behind it."""
    if style == "none":
        return ""
    if style in ("1", "decimal", "decimal-leading-zero"):
        return f"{number}. "
    if style in ("a", "A", "lower-alpha", "lower-latin", "upper-alpha", "upper-latin"):
        letters = _letters(number)
        return f"{letters if style[0] in 'al' else letters.upper()}. "
    if style in ("i", "I", "lower-roman", "upper-roman"):
        roman = _roman(number)
        return f"{roman if style[0] in 'il' else roman.upper()}. "
    return "- "


def _letters(number: int) -> str:
    if number < 1:
        return str(number)
    found = ""
    while number:
        number, rest = divmod(number - 1, 26)
        found = chr(ord("a") + rest) + found
    return found


def _roman(number: int) -> str:
    if not 0 < number < 4000:
        return str(number)
    found = ""
    for value, letters in zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"),
        strict=True,
    ):
        count, number = divmod(number, value)
        found += letters * count
    return found
