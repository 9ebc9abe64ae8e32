"""docs/dev/performance.md: each benchmark writes its own sections."""

import os
import platform
import re
import sqlite3
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.support.servers.services import find_postgres

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "dev" / "performance.md"
QUICK = bool(os.environ.get("BENCH_QUICK"))
HEAD = """# What it costs

Written by `make bench`. Times are ratios between two things measured in turn in one run; the figures of other servers
were measured once, on a mailbox of the same kind. `bin/bench N5` measures one goal, and leaves the rest as it is.

"""


def read_section(title: str) -> list[str]:
    """Return the lines below this title, none if the page has no such section."""
    return next(
        (each.splitlines()[2:] for each in _sections() if each.startswith(f"## {title}\n")), []
    )


def write_section(title: str, lines: Sequence[str], *, first: bool = False) -> str:
    """Write the lines under the title in place of the old ones, and return the section.

    A new section comes last, or `first`.
    """
    section = "\n".join([f"## {title}", "", *lines, ""])
    others = [each.rstrip("\n") + "\n" for each in _sections()]
    found = [number for number, each in enumerate(others) if each.startswith(f"## {title}\n")]
    if found:
        others[found[0]] = section
    else:
        others.insert(0 if first else len(others), section)
    PAGE.write_text("\n".join([HEAD + _machine() + "\n", *others]))
    return section


def _sections() -> list[str]:
    text = PAGE.read_text() if PAGE.exists() else ""
    return re.split(r"(?m)^(?=## )", text)[1:]


def _machine() -> str:
    """Return the machine of the last run, its load at the start, and the versions."""
    load = os.environ.get("BENCH_LOAD") or f"{os.getloadavg()[0]:.1f}"
    return (
        f"Last run: {datetime.now(UTC):%Y-%m-%d}, on {_processor()}, {os.cpu_count()} cores, load average {load} at the"
        f" start.\nPython {platform.python_version()}, Django {version('django')}, PostgreSQL {_postgres()}, SQLite"
        f" {sqlite3.sqlite_version}, psycopg {version('psycopg')}."
    )


def _processor() -> str:
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def _postgres() -> str:
    said = subprocess.run(
        [find_postgres() / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return said.split()[2]
