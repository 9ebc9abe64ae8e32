"""Modes of the chat: which tools each one offers, and why it blocks the others.

In every mode, nothing is sent without a person's approval.
"""

from collections.abc import Collection
from typing import Literal, get_args

from tools.catalog.entries import Effect, Tool

Mode = Literal["readOnly", "default", "safeWrite"]
MODES: tuple[Mode, ...] = get_args(Mode)
# An effect describes what a token may do. This tool reads, but it also changes something.
CHANGES_SOMETHING = frozenset({"cancel_action"})


def blocked(tool: Tool, mode: Mode, *, allowed: Collection[str]) -> str:
    """Return why this mode does not let the model call the tool; empty if it does.

    A command is allowed here, because only its text shows if it reads; see `proposes`.
    """
    if mode == "safeWrite" or tool.effect is Effect.COMMAND:
        return ""
    if tool.effect is Effect.READ and tool.name not in CHANGES_SOMETHING:
        return ""
    if mode == "default" and (tool.effect is Effect.DRAFT or tool.name in allowed):
        return ""
    what = "writes drafts" if tool.effect is Effect.DRAFT else "proposes or changes something"
    return f"{tool.name} {what}, which the mode {mode} does not allow. Tell the person; do not try another way."


def proposes(tool: Tool, mode: Mode, *, allowed: Collection[str]) -> bool:
    """Return True if a call of this tool may create a pending action."""
    return mode == "safeWrite" or (mode == "default" and tool.name in allowed)
