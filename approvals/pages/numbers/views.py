"""The page of numbers, and its export."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.infra.spreadsheets import escape_formula
from approvals.pages.numbers.figures import PERIODS, RESULTS, Figures, Line, read_figures

DAYS = 30
SHOWN = 50  # lines of a table; the export has all
WORDS = {
    "approved": _("approved"),
    "rejected": _("rejected"),
    "expired": _("expired"),
    "waiting": _("waiting"),
    "withdrawn": _("withdrawn"),
}
COLUMNS = (
    "by", "name", "mails", "median_seconds", "p95_seconds", "approved", "rejected", "asked_back", "edited", "failed",
    "unknown", "expired",
)  # fmt: skip

GAP = 0.2  # of the width of a day


@signed_in_page
def index(request: AuthenticatedRequest) -> HttpResponse:
    figures = read_figures(request.user, _days(request))
    context = {
        "figures": figures,
        "periods": PERIODS,
        "chart": stack_days(figures.by_day, list(RESULTS)),
        "results": WORDS,
        "days": [
            (day, [tally[name] for name in RESULTS], tally.total())
            for day, tally in reversed(figures.by_day)
            if tally
        ],
        "tables": _tables(figures),
    }
    return render(request, "approvals/numbers.html", context)


@signed_in_page
def export(request: AuthenticatedRequest) -> HttpResponse:
    """Return all lines as CSV, with the rights of the page."""
    days = _days(request)
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="mailhub-numbers-{days}-days.csv"'
    text = io.StringIO()
    lines = csv.DictWriter(text, COLUMNS)
    lines.writeheader()
    for record in _records(read_figures(request.user, days)):
        lines.writerow({name: escape_formula(value) for name, value in record.items()})
    answer.write(text.getvalue())
    return answer


def _days(request: AuthenticatedRequest) -> int:
    asked = request.GET.get("days", "")
    return int(asked) if asked in map(str, PERIODS) else DAYS


def _tables(figures: Figures) -> list[dict[str, Any]]:
    """Return the tables of the page; a bar is as long as its part of the largest p95."""
    tables = (
        ("mailboxes", _("Mailboxes"), figures.mailboxes),
        ("agents", _("Agents and people who propose"), figures.agents),
        ("approvers", _("Approvers"), figures.approvers),
    )
    return [
        {
            "key": key,
            "title": title,
            "more": max(len(lines) - SHOWN, 0),
            "rows": [(line, *_bars(line, lines[:SHOWN])) for line in lines[:SHOWN]],
        }
        for key, title, lines in tables
        if lines
    ]


def _bars(line: Line, lines: list[Line]) -> tuple[float, float]:
    most = max((each.p95 or 0 for each in lines), default=0)
    return scale(line.median, most), scale(line.p95, most)


def _records(figures: Figures) -> Iterator[dict[str, Any]]:
    groups = {
        "all": [figures.total],
        "mailbox": figures.mailboxes,
        "agent": figures.agents,
        "approver": figures.approvers,
    }
    for by, lines in groups.items():
        for line in lines:
            yield {
                "by": by,
                "name": line.name,
                "mails": line.mails,
                "median_seconds": _whole(line.median),
                "p95_seconds": _whole(line.p95),
                **{name: getattr(line, name) for name in COLUMNS[5:]},
            }


def _whole(seconds: float | None) -> int | str:
    return "" if seconds is None else round(seconds)


WIDTH, HEIGHT = 720, 160


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
    for number, (_day, tally) in enumerate(days):
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
