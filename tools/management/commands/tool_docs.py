from typing import Any

from django.core.management.base import BaseCommand

from tools.catalog.entries import TOOLS, Tool

HEAD = """# The tools

Generated from the catalogue by `make docs`. Each tool is a `POST /api/v1/tools/{name}`, and an MCP tool of the same
name. Each takes `mailbox` (id or address), except `list_mailboxes` and the tools about actions. Leave it out if there
is only one mailbox. Parameters in bold are required.

| tool | effect | scope | parameters | what it does |
| --- | --- | --- | --- | --- |
"""


class Command(BaseCommand):
    help = "Prints docs/use/tools.md."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(HEAD + "\n".join(_row(tool) for tool in TOOLS.values()))


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
