"""The goals N2 to N11: what each one is, and the table of the page that holds what was measured."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.bench.page import QUICK, read_section, write_section

TITLE = "Goals N2 to N11"
COLUMNS = "| goal | what | measured | limit | met | when (UTC), load |"
INTRODUCTION = (
    "Each row says when it was measured, and the load average of the machine at that moment.",
    "",
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One measurement of a goal; `met` is None if this run cannot decide it."""

    what: str
    measured: str
    limit: str
    met: bool | None


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A goal that `make test` decides, and where."""

    what: str
    limit: str
    tests: tuple[str, ...]


COUNTED: dict[str, Tested] = {
    "N2": Tested(
        what="durable commits: propose, approve, execute and settle; reading",
        limit="1, 1, 3; 0",
        tests=("tests/approvals/test_durable_commits.py",),
    ),
    "N7": Tested(
        what="pages read for claim, due, sweep slice and following: 10,000 mailboxes, 25,000 held mails",
        limit="500",
        tests=("tests/approvals/test_scale.py",),
    ),
    "N11": Tested(
        what="statements of an idle worker a second; pages that a sweep reads with 25,000 held mails",
        limit="5; 500",
        tests=("tests/approvals/test_sweeper.py", "tests/approvals/test_scale.py"),
    ),
}
BENCHED = {
    "N5": "from the approval to the acceptance by an SMTP server that is 20 ms away",
    "N6": "mails a second of one worker, 20 mailboxes at 20 ms; one mailbox with 1,000 approved mails",
    "N8": "growth with the number of actions, and of mailboxes of one person",
    "N9": "a team of 10 people and 20 agents; lag of the live hub",
}
GOALS = sorted([*COUNTED, *BENCHED], key=lambda goal: int(goal[1:]))
collected: list[str] = []  # for the terminal


def report(goal: str, *found: Measured) -> None:
    """Put the measurements of a goal into the table of the page; with BENCH_QUICK only print them."""
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M}, {os.getloadavg()[0]:.1f}"
    words = {True: "met", False: "not met", None: "not decided"}
    block = [
        f"| {goal if number == 0 else ''} | {each.what} | {each.measured} | {each.limit} | {words[each.met]} | {when} |"
        for number, each in enumerate(found)
    ]
    collected.extend(block)
    if not QUICK:
        write_table({goal: block})


def write_table(news: dict[str, list[str]]) -> str:
    """Write the table with these rows in place of the earlier ones of their goals; return it."""
    blocks = {goal: [_tested(goal, its)] for goal, its in COUNTED.items()}
    earlier = _blocks(read_section(TITLE))
    for goal, what in BENCHED.items():
        blocks[goal] = [f"| {goal} | {what} | not measured: never run | | | |"]
        blocks[goal] = news.get(goal) or earlier.get(goal) or blocks[goal]
    rows = [row for goal in GOALS for row in blocks[goal]]
    lines = [*INTRODUCTION, COLUMNS, re.sub(r"[^|]+", " --- ", COLUMNS), *rows]
    return write_section(TITLE, lines, first=True)


def _tested(goal: str, its: Tested) -> str:
    tests = ", ".join(f"`{test}`" for test in its.tests)
    return f"| {goal} | {its.what} | counted by {tests} | {its.limit} | by `make test` | |"


def _blocks(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the rows of each goal; a row without a goal belongs to the goal above it."""
    blocks: dict[str, list[str]] = {}
    for line in lines:
        if found := re.match(r"\| (N\d+) \|", line):
            blocks[found[1]] = []
        if blocks and line.startswith(("| N", "|  |")):
            list(blocks.values())[-1].append(line)
    return blocks
