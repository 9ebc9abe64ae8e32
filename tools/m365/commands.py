"""The commands of the CLI for Microsoft 365 with their options, from the CLI's own list.

`manage.py m365_commands` makes `commands.tsv` from `allCommandsFull.json` of the npm package
`@pnp/cli-microsoft365` (MIT licence). Additions of a newer CLI are unknown here, and so refused,
until the file is made again.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from accounts.infra.foreign_text import load_json
from tools.m365.classify import DROPPED, CliCommand

FILE = Path(__file__).with_name("commands.tsv")
SWITCH, VALUED = "!", "="


@cache
def known_commands() -> Mapping[str, CliCommand]:
    """Return every command by its name."""
    lines = FILE.read_text().splitlines()
    return {
        command.name: command for command in map(_read, lines) if not command.name.startswith("#")
    }


def format_commands(package: Path) -> str:
    """Return the text of `commands.tsv` for an unpacked package.

    Raises OSError, ValueError or KeyError if the folder is no such package.
    """
    about = load_json((package / "package.json").read_text())
    listed = load_json((package / "allCommandsFull.json").read_text())
    head = f"# {about['name']} {about['version']}, licence {about['license']}; made by manage.py m365_commands"
    lines = []
    for command in sorted(listed, key=lambda each: each["name"]):
        options = [
            ",".join(filter(None, (option.get("long") or option["name"], option.get("short"))))
            + _mark(option)
            for option in command["options"]
            if option["name"] not in DROPPED
        ]
        lines.append("\t".join([command["name"], *options]))
    return "\n".join([head, *lines, ""])


def _read(line: str) -> CliCommand:
    name, *options = line.split("\t")
    names: dict[str, str] = {}
    marked: dict[str, set[str]] = {SWITCH: set(), VALUED: set()}
    for option in options:
        long, *short = option.rstrip(SWITCH + VALUED).split(",")
        names |= dict.fromkeys((long, *short), long)
        marked.get(option[-1], set()).add(long)
    return CliCommand(
        name=name,
        options=names,
        switches=frozenset(marked[SWITCH]),
        valued=frozenset(marked[VALUED]),
    )


def _mark(option: Mapping[str, Any]) -> str:
    if option.get("type") == "boolean":
        return SWITCH
    return VALUED if option.get("required") or option.get("type") else ""
