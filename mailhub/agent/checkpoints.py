"""LangGraph's checkpoints in the application's own database: the newest of each thread, deleted
with its thread.

Only messages are kept, as JSON, encrypted and bound to their thread and checkpoint. No row can name
a class to import: reading makes only the message types of TYPES.
"""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    empty_checkpoint,
)
from pydantic import ValidationError

from accounts.infra.credentials import CannotDecrypt
from accounts.infra.foreign_text import load_json
from accounts.infra.streams import in_thread
from mailhub.agent import models

FORMAT = "messages"
MESSAGES = "messages"  # the only channel that is kept after a run
TYPES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}


class UnreadableConversation(Exception):
    """A stored conversation that `keep` did not write, that was changed, or whose key is missing."""


class DatabaseSaver(BaseCheckpointSaver[str]):
    """A saver of finished steps. It keeps no writes between two checkpoints, because an interrupted
    run is not resumed.
    """

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        mine = models.Checkpoint.objects.filter(pk=config["configurable"]["thread_id"])
        found = await in_thread(mine.first)
        if found is None:
            return None
        checkpoint = empty_checkpoint()
        checkpoint["id"] = found.checkpoint_id
        checkpoint["channel_values"] = {MESSAGES: messages_of(found)}
        checkpoint["channel_versions"] = {MESSAGES: self.get_next_version(None, None)}
        metadata: CheckpointMetadata = {"source": "loop", "step": 0, "parents": {}}
        return CheckpointTuple(
            config=_config(found.pk, found.checkpoint_id), checkpoint=checkpoint, metadata=metadata
        )

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread_id = config["configurable"]["thread_id"]
        messages = checkpoint["channel_values"].get(MESSAGES, [])
        await in_thread(keep, thread_id, checkpoint["id"], messages)
        return _config(thread_id, checkpoint["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep nothing; the docstring of the class says why."""

    async def alist(
        self, config: RunnableConfig | None, **_: Any
    ) -> AsyncIterator[CheckpointTuple]:
        found = await self.aget_tuple(config) if config else None
        if found is not None:
            yield found

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return the next version as text that sorts in numeric order."""
        return f"{int(current or 0) + 1:032}"


def keep(thread_id: Any, checkpoint_id: str, messages: Sequence[BaseMessage]) -> None:
    """Store the messages that the model remembers of a thread from now on."""
    said = [
        {"type": _type_of(message), "data": message.model_dump(mode="json", exclude={"type"})}
        for message in messages
    ]
    values = {"checkpoint_id": checkpoint_id, "type": FORMAT, "content": json.dumps(said).encode()}
    # Not update_or_create, because it reads the existing row, which may be unreadable.
    models.Checkpoint(thread_id=thread_id, **values).save()


def messages_of(found: models.Checkpoint) -> list[BaseMessage]:
    """Return the messages that the model remembers; raise UnreadableConversation for a row that
    `keep` did not write.
    """
    try:
        if found.type != FORMAT:
            raise UnreadableConversation("another format")
        return [
            TYPES[each["type"]].model_validate(each["data"])
            for each in load_json(bytes(found.content))
        ]
    except (CannotDecrypt, ValidationError, ValueError, KeyError, TypeError) as error:
        raise UnreadableConversation(type(error).__name__) from error


def _type_of(message: BaseMessage) -> str:
    """Return the type of a message; chunks of a streamed message have the type of the message."""
    return next(name for name, sort in TYPES.items() if isinstance(message, sort))


def _config(thread_id: Any, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": str(thread_id),
            "checkpoint_ns": "",
            "checkpoint_id": checkpoint_id,
        }
    }
