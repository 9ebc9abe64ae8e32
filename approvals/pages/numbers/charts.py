"""Geometry of the charts: rectangles in the units of an SVG's viewBox, without any text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

WIDTH, HEIGHT = 720, 160
GAP = 0.2  # of the width of a day


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A rectangle; `sort` is the class of its colour."""

    x: float
    y: float
    width: float
    height: float
    sort: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Bars of days, stacked; `most` is the number of mails at the full height."""

    bars: list[Bar]
    most: int


def stack_days(days: Sequence[tuple[date, Counter[str]]], sorts: Sequence[str]) -> Chart:
    """Return the stacked bars of the days, from the bottom in the order of `sorts`."""
    most = max((tally.total() for _, tally in days), default=0)
    slot = WIDTH / max(len(days), 1)
    bars = []
    for number, (_, tally) in enumerate(days):
        top = float(HEIGHT)
        for sort in sorts:
            if not tally[sort]:
                continue
            height = HEIGHT * tally[sort] / most
            top -= height
            bars.append(
                Bar(
                    x=round(slot * (number + GAP / 2), 2),
                    y=round(top, 2),
                    width=round(slot * (1 - GAP), 2),
                    height=round(height, 2),
                    sort=sort,
                )
            )
    return Chart(bars=bars, most=most)


def scale(value: float | None, most: float | None) -> float:
    """Return a value as a length from 0 to 100, where 100 is the largest of its chart."""
    return round(100 * value / most, 1) if value and most else 0.0
