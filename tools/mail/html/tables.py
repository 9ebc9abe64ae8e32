"""The text of a table: rows of data on one line each, and the cells of a layout one after another.

Pure, linear in the text.
"""

import re
from dataclasses import dataclass, field

SEPARATOR = " | "
WITHIN = " / "  # between the lines of one cell of data
MOST_IN_CELL = 300  # characters of a cell of data
MOST_LINES = 6  # of a cell of data
MOST_IN_ROW = 120  # characters of a layout's row that stays on one line
MOST_COLUMNS = 100
# A cell that only marks its neighbour, as tables that draw a list have.
SIGN = re.compile(r"[^\w\s]{1,2}|\d{1,3}[.)]|[A-Za-z][.)]")


@dataclass(kw_only=True)
class Cell:
    """A cell of a table with its lines. `nests`: it holds a table of several rows or a list."""

    lines: list[str]
    head: bool = False
    columns: int = 1
    rows: int = 1
    nests: bool = False

    @property
    def text(self) -> str:
        return WITHIN.join(line for line in self.lines if line)


@dataclass(kw_only=True)
class Table:
    """A table that is being read."""

    layout: bool = False  # its author says that it is no table of data
    rows: list[list[Cell]] = field(default_factory=list)

    def lines(self) -> tuple[list[str], bool]:
        """Return the lines of the table, and True if it is a table of data."""
        rows = [row for row in self.rows if any(cell.lines for cell in row)]
        if _holds_data(rows, layout=self.layout):
            return _data(self.rows), True
        lines: list[str] = []
        was_block = False
        for row in rows:
            filled = [cell for cell in row if cell.lines]
            one = _on_one_line(filled)
            added = [one] if one is not None else _stack(filled)
            is_block = len(added) > 1
            if lines and (is_block or was_block):
                lines.append("")
            lines += added
            was_block = is_block
        return lines, False


def _holds_data(rows: list[list[Cell]], *, layout: bool) -> bool:
    cells = [cell for row in rows for cell in row if cell.lines]
    if layout and any(len(cell.lines) > 1 for cell in cells):
        return False
    if len(rows) < 2 or any(cell.nests for cell in cells):
        return False
    if all(SIGN.fullmatch(row[0].text) for row in rows if len(row) > 1):
        return False
    if any(len(cell.lines) > MOST_LINES or len(cell.text) > MOST_IN_CELL for cell in cells):
        return False
    wide = [row for row in rows if sum(bool(cell.lines) for cell in row) > 1]
    if any(cell.head for cell in cells):
        return bool(wide)
    # Two long texts beside each other are columns of a page, and no data.
    return len(wide) >= 2 and 2 * len(wide) >= len(rows)


def _data(rows: list[list[Cell]]) -> list[str]:
    grid = _grid(rows)
    width = max(map(len, grid), default=0)
    used = [any(len(row) > n and row[n] for row in grid) for n in range(width)]
    lines: list[str] = []
    for cells, texts in zip(rows, grid, strict=True):
        filled = [cell for cell in cells if cell.lines]
        if len(filled) == 1:
            lines += filled[0].lines  # a title or a note between the rows
        elif filled:
            row = SEPARATOR.join(text for n, text in enumerate(texts) if used[n])
            lines.append(row.rstrip(" |") if row.endswith(SEPARATOR) else row)
    return lines


def _grid(rows: list[list[Cell]]) -> list[list[str]]:
    """Return the texts of the rows by column; a cell over several has its text in the first."""
    grid: list[list[str]] = []
    hanging: dict[int, int] = {}  # column: rows that a cell above still takes
    for row in rows:
        texts: list[str] = []
        for cell in row:
            while hanging.get(len(texts), 0):
                hanging[len(texts)] -= 1
                texts.append("")
            if len(texts) >= MOST_COLUMNS:
                texts[-1] = f"{texts[-1]} {cell.text}"
                continue
            columns = min(max(cell.columns, 1), MOST_COLUMNS - len(texts))
            if cell.rows > 1:
                hanging |= dict.fromkeys(range(len(texts), len(texts) + columns), cell.rows - 1)
            texts += [cell.text, *[""] * (columns - 1)]
        grid.append(texts)
    return grid


def _on_one_line(cells: list[Cell]) -> str | None:
    if any(len(cell.lines) > 1 for cell in cells):
        return None
    texts = [cell.lines[0] for cell in cells]
    if len(texts) > 1 and SIGN.fullmatch(texts[0]):
        texts[:2] = [f"{texts[0]} {texts[1]}"]
    if len(texts) > 1 and sum(map(len, texts)) > MOST_IN_ROW:
        return None
    return SEPARATOR.join(texts)


def _stack(cells: list[Cell]) -> list[str]:
    if len(cells) == 2 and len(cells[0].lines) == 1 and SIGN.fullmatch(cells[0].lines[0]):
        first, *others = cells[1].lines
        return [f"{cells[0].lines[0]} {first}", *(f"  {line}" if line else "" for line in others)]
    lines: list[str] = []
    for cell in cells:
        if lines and (len(cell.lines) > 1 or lines[-1] == ""):
            lines.append("")
        lines += cell.lines
    return lines
