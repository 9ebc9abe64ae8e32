"""docs/dev/performance.md: one table, in which each benchmark writes the rows of its goal."""

import os
import platform
import re
import sqlite3
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.support.servers.services import find_postgres

PAGE = Path(__file__).parents[2] / "docs" / "dev" / "performance.md"
QUICK = bool(os.environ.get("BENCH_QUICK"))
GOALS = ("P1", "P2", "P3", "N6", "N8", "N9")
HEAD = """# What it costs

Written by `make bench`, which begins only on an idle machine. `bin/bench N6` measures one goal. A goal that can be
counted is a test of the suite instead: the [goals](faults.md#performance-goals) name it.

Last run: {date:%Y-%m-%d}, on {processor}, {cores} cores, load average {load} at the start.
Python {python}, Django {django}, PostgreSQL {postgres}, SQLite {sqlite}, psycopg {psycopg}.

| goal | what | measured | limit | met | when (UTC) |
| --- | --- | --- | --- | --- | --- |
"""
collected: list[str] = []  # for the terminal


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One measurement of a goal."""

    what: str
    measured: str
    limit: str
    met: bool


def report(goal: str, *rows: Measured, part: str = "") -> None:
    """Put the rows of a goal, or of a part of it, in place of the earlier ones.

    With BENCH_QUICK only print them.
    """
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    first = " ".join(each for each in (goal, part) if each)
    lines = [
        f"| {'' if number else first} | {row.what} | {row.measured} | {row.limit}"
        f" | {'yes' if row.met else '**no**'} | {when} |"
        for number, row in enumerate(rows)
    ]
    collected.extend(lines)
    if QUICK:
        return
    blocks = _blocks()
    blocks[first] = lines
    kept = sorted(blocks, key=lambda name: (GOALS.index(name[:2]), name))
    PAGE.write_text(_head() + "\n".join(line for name in kept for line in blocks[name]) + "\n")


def _blocks() -> dict[str, list[str]]:
    """Return the rows by their goal; a row without one belongs to the goal above it."""
    blocks: dict[str, list[str]] = {}
    name = ""
    for line in PAGE.read_text().splitlines():
        if found := re.match(rf"\| ((?:{'|'.join(GOALS)})[^|]*) \|", line):
            name = found[1]
        if name:
            blocks.setdefault(name, []).append(line)
    return blocks


def _head() -> str:
    postgres = subprocess.run(
        [find_postgres() / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    processor = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return HEAD.format(
        date=datetime.now(UTC),
        processor=processor[1] if processor else platform.machine(),
        cores=os.cpu_count(),
        load=os.environ.get("BENCH_LOAD", "unknown"),
        python=platform.python_version(),
        django=version("django"),
        postgres=postgres.split()[2],
        sqlite=sqlite3.sqlite_version,
        psycopg=version("psycopg"),
    )
