"""The programs that may chat, and the modes: which tools each offers, why it blocks the others.

In every mode, nothing is sent without a person's approval.
"""

from collections.abc import Collection
from typing import Literal, get_args

from accounts.access.audience import lacks_scope
from accounts.access.caller import Caller
from tools.catalog.entries import Tool

Mode = Literal["readOnly", "default", "safeWrite"]
MODES: tuple[Mode, ...] = get_args(Mode)
CHAT_SCOPE = "agent:chat"


def check_may_chat(caller: Caller) -> None:
    """Raise Problem `forbidden` if a token may not chat, because the model costs money."""
    if not caller.may(CHAT_SCOPE):
        raise lacks_scope(caller.surface, held=caller.scopes, needed=CHAT_SCOPE)


def block_reason(tool: Tool, mode: Mode, *, allowed: Collection[str]) -> str:
    """Return why this mode does not let the model call the tool; empty if it does.

    A command is allowed here, because only its text shows if it reads; see `proposes`.
    """
    if mode == "safeWrite" or tool.effect == "command":
        return ""
    if tool.read_only and tool.effect == "read":
        return ""
    if mode == "default" and (tool.effect == "draft" or tool.name in allowed):
        return ""
    what = "writes drafts" if tool.effect == "draft" else "proposes or changes something"
    return f"{tool.name} {what}, which the mode {mode} does not allow. Tell the person; do not try another way."


def proposes(tool: Tool, mode: Mode, *, allowed: Collection[str]) -> bool:
    """Return True if a call of this tool may create a pending action."""
    return mode == "safeWrite" or (mode == "default" and tool.name in allowed)
