import re
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from tools.catalog.entries import TOOLS, Tool
from tools.warnings import CHECKS

DOCS = Path(__file__).parents[5] / "docs"
HEAD = """# The tools

Generated from the catalogue by `make docs`. Each tool is a `POST /api/v1/tools/{name}`, and an MCP tool of the same
name. Each takes `mailbox` (id or address), except `list_mailboxes` and the tools about actions. Leave it out if there
is only one mailbox. Parameters in bold are required.

| tool | effect | scope | parameters | what it does |
| --- | --- | --- | --- | --- |
"""
# The warnings that are not about the message itself.
OF_ACTIONS = {
    "may_have_been_sent": "an earlier attempt was handed over and its answer was lost, and a person said that it "
    "was not sent; or mailhub was restored from an older copy; or one of these holds for an earlier proposal of the "
    "same, however old it is. "
    "mailhub checks the latter when a mail is proposed, edited and approved, and before it leaves",
    "m365_write": "a command changes something in Microsoft 365; only staff of the server may approve it",
    "mcp_write": "the chat proposes to call a tool of another server, with the rights that the installation has there",
}
WARNINGS = re.compile(r"(?m)(?<=^\| code \| raised when \|\n\| --- \| --- \|\n)(?:\|.*\n)+")


class Command(BaseCommand):
    help = "Writes docs/use/tools.md, and the table of warnings in docs/contract.md."

    def handle(self, *args: Any, **options: Any) -> None:
        for page, text in make_pages().items():
            page.write_text(text)


def make_pages() -> dict[Path, str]:
    """Return the text of each page that is made from the code."""
    contract = DOCS / "contract.md"
    rows = [("⚠ ", code, when) for code, when in OF_ACTIONS.items()]
    for each in CHECKS.values():
        mark = "⚠ " if each.severity == "risk" else "(⚠) " if each.rises else ""
        rows.append((mark, each.code, each.when))
    rows.sort(key=lambda row: ("⚠ ", "(⚠) ", "").index(row[0]))
    table = "".join(f"| {mark}`{code}` | {when} |\n" for mark, code, when in rows)
    lines = [_row(tool) for tool in TOOLS.values()]
    lines += [
        "",
        "## Toolsets",
        "",
        "A client of MCP [names those](mcp.md#toolsets) that it wants.",
        "",
    ]
    lines += ["| toolset | tools |", "| --- | --- |"]
    for toolset in dict.fromkeys(tool.toolset for tool in TOOLS.values()):
        names = [f"`{tool.name}`" for tool in TOOLS.values() if tool.toolset == toolset]
        lines.append(f"| `{toolset}` | {', '.join(names)} |")
    return {
        DOCS / "use" / "tools.md": HEAD + "\n".join(lines) + "\n",
        contract: WARNINGS.sub(lambda _: table, contract.read_text(), count=1),
    }


def _row(tool: Tool) -> str:
    schema = tool.parameters.model_json_schema()
    needed = set(schema.get("required", ()))
    names = [
        f"**`{name}`**" if name in needed else f"`{name}`"
        for name in schema["properties"]
        if name != "mailbox"
    ]
    parameters = ", ".join(names) or "none"
    return f"| `{tool.name}` | {tool.effect} | `{tool.scope}` | {parameters} | {tool.description} |"
