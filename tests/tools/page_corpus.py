"""The labelled pages of tests/corpus/pages, and the judgement of a text of one."""

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "corpus" / "pages"


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A page, and what its text must and must not have."""

    html: str
    reads: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    links: list[list[str]] = field(default_factory=list)
    once: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)
    hidden: bool = False


@cache
def pages() -> dict[str, Labelled]:
    labels = tomllib.loads((FOLDER / "pages.toml").read_text("utf-8"))
    return {
        name: Labelled(html=(FOLDER / f"{name}.html").read_text("utf-8"), **label)
        for name, label in labels.items()
    }


def find_faults(page: Labelled, text: str) -> list[str]:
    """Return what is wrong with the text; white space between words counts only in `lines`."""
    flat = _flat(text)
    lines = text.split("\n")
    faults = _find_disorder(page.reads, flat)
    faults += [f"no line {line!r}" for line in page.lines if line not in lines]
    faults += [f"no row {row}" for row in page.rows if not _has_in_order(lines, row)]
    faults += [f"no link {link}" for link in page.links if not _has_in_order([flat], link)]
    faults += [f"not once: {each!r}" for each in page.once if flat.count(each) != 1]
    return faults + [f"has {each!r}" for each in page.never if each in flat]


def _flat(text: str) -> str:
    return " ".join(text.split())


def _find_disorder(wanted: list[str], flat: str) -> list[str]:
    place = 0
    for each in wanted:
        found = flat.find(_flat(each), place)
        if found < 0:
            return [f"lacks {each!r}" + (" in this place" if each in flat else "")]
        place = found + len(_flat(each))
    return []


def _has_in_order(lines: list[str], parts: list[str]) -> bool:
    pattern = re.compile(".*?".join(re.escape(part) for part in parts))
    return any(pattern.search(_flat(line)) for line in lines)
