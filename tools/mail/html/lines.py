"""Lines of text under construction, with the white space that a browser would show. Pure, linear."""

import re

WHITE = re.compile(r"[ \t\n\r\f]+")
NO_BREAK_SPACE = "\u00a0"
SHOWN_SPACE = "\ufdef"  # no character of any text: a space that is shown as it is
# Editors move words apart with rows of spaces; a gap within a line says as much.
GAP = re.compile(f"(?<=[^ {NO_BREAK_SPACE}])[ {NO_BREAK_SPACE}]{{3,}}")
DEEPEST = 20  # spaces at the begin of a line


class Lines:
    """The lines of one box: a page, a cell, an item of a list, or a quote."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._now: list[str] = []
        self._ends_with_space = True  # a space here would not be shown
        self._gap = False

    def write(self, text: str) -> None:
        """Add text whose white space is only a distance between words."""
        text = WHITE.sub(" ", text)
        if self._ends_with_space:
            text = text.lstrip(" ")
        if text:
            self._now.append(text)
            self._ends_with_space = text.endswith(" ")

    def write_exactly(self, text: str) -> None:
        """Add text whose spaces and line ends are shown."""
        first, *others = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._add(first)
        for line in others:
            self.break_line()
            self._add(line)

    def _add(self, text: str) -> None:
        if text:
            self._now.append(text.replace(" ", SHOWN_SPACE))
            self._ends_with_space = False

    def end_line(self) -> None:
        """End the line if anything is in it: a block begins or ends here."""
        if not self._now:
            return
        line = self._take()
        if line:
            self._emit(line)
        else:
            self.add_gap()

    def break_line(self) -> None:
        """End the line, even an empty one."""
        self._emit(self._take())

    def add_gap(self) -> None:
        """Put one empty line before the next text, if there is text before it."""
        self.end_line()
        self._gap = bool(self.done)

    def add_block(self, lines: list[str], *, apart: bool = False) -> None:
        """Add finished lines, between empty lines if they are `apart`."""
        self.end_line()
        if not lines:
            return
        if apart:
            self.add_gap()
        for line in lines:
            self._emit(line)
        if apart:
            self.add_gap()

    def finish(self) -> list[str]:
        """Return all lines, without empty ones at both ends."""
        self.end_line()
        lines = self.done
        while lines and not lines[-1]:
            lines.pop()
        start = next((place for place, line in enumerate(lines) if line), 0)
        return lines[start:]

    def mark(self) -> tuple[int, int]:
        """Return the present place, for `since`."""
        return len(self.done), len(self._now)

    def since(self, mark: tuple[int, int]) -> str:
        """Return the text that was added after the mark, on one line."""
        lines, parts = mark
        pieces = self._now[parts:] if lines == len(self.done) else [*self.done[lines:], *self._now]
        return " ".join(" ".join(pieces if lines != len(self.done) else ["".join(pieces)]).split())

    def surround(self, mark: tuple[int, int], sign: str) -> None:
        """Put a sign on both sides of the text after the mark, if it is part of one line."""
        lines, parts = mark
        text = "".join(self._now[parts:])
        if lines != len(self.done) or not text.strip():
            return
        inner = text.strip(" ")
        before, after = text.partition(inner)[::2]
        self._now[parts:] = [f"{before}{sign}{inner}{sign}{after}"]

    def append(self, text: str) -> None:
        """Add text directly behind the last word, which may be on an earlier line."""
        if not self._now:
            if self.done and self.done[-1]:
                self.done[-1] += text
            else:
                self.write(text.lstrip())
            return
        space = " " if self._ends_with_space else ""
        while self._now and not (last := self._now.pop().rstrip(" ")):
            pass
        self._now.append(f"{last}{text}{space}")

    def _take(self) -> str:
        line = "".join(self._now).rstrip(f" {NO_BREAK_SPACE}{SHOWN_SPACE}")
        self._now, self._ends_with_space = [], True
        if NO_BREAK_SPACE in line:
            inner = line.lstrip(NO_BREAK_SPACE)
            line = " " * min(len(line) - len(inner), DEEPEST) + GAP.sub("  ", inner)
            line = line.replace(NO_BREAK_SPACE, " ")
        return line.replace(SHOWN_SPACE, " ")

    def _emit(self, line: str) -> None:
        if self._gap:
            self._gap = False
            if self.done and self.done[-1]:
                self.done.append("")
        self.done.append(line)
