"""Which tools a mode offers, and why another is blocked.

Whatever is decided here, nothing leaves without a person.
"""

from collections.abc import Collection
from typing import Literal, get_args

from tools.catalog.entries import Effect, Tool

Mode = Literal["readOnly", "default", "safeWrite"]
MODES: tuple[Mode, ...] = get_args(Mode)
# An effect is about what a token may do; this one changes something, if only by withdrawing.
CHANGES_SOMETHING = frozenset({"cancel_action"})


def blocked(tool: Tool, mode: Mode, *, allowed: Collection[str]) -> str:
    """Why this mode does not let the model call the tool; empty when it does.

    A command is let through: whether it reads is known only from its text, see `proposes`.
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
    """Whether a call of this tool may put something before a person to decide."""
    return mode == "safeWrite" or (mode == "default" and tool.name in allowed)
