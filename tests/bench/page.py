"""docs/dev/performance.md: each benchmark writes its own sections."""

import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "dev" / "performance.md"
HEAD = """# What it costs

Written by `make bench`. Times are ratios between two things measured in turn in one run; the figures of other servers
were measured once, on a mailbox of the same kind.
"""


def write_section(title: str, lines: Sequence[str]) -> str:
    """Write the lines under the title in place of the old ones, and return the section."""
    text = PAGE.read_text() if PAGE.exists() else HEAD
    sections = re.split(r"(?m)^(?=## )", text)
    section = "\n".join([f"## {title}", "", *lines, ""])
    others = [each.rstrip("\n") + "\n" for each in sections[1:]]
    found = [number for number, each in enumerate(others) if each.startswith(f"## {title}\n")]
    if found:
        others[found[0]] = section
    else:
        others.append(section)
    PAGE.write_text("\n".join([HEAD, *others]))
    return section
