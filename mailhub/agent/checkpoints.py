"""LangGraph's checkpoints in the application's own database: the newest of each thread, gone with its thread."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from mailhub.agent import models


class DatabaseSaver(BaseCheckpointSaver[str]):
    """A run that breaks off is not resumed in its middle, so writes between two checkpoints are not kept."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = await models.Checkpoint.objects.filter(pk=config["configurable"]["thread_id"]).afirst()
        if found is None:
            return None
        checkpoint, metadata = self.serde.loads_typed((found.type, bytes(found.content)))
        config_found = _config(found.pk, found.checkpoint_id)
        return CheckpointTuple(config=config_found, checkpoint=checkpoint, metadata=metadata)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread_id = config["configurable"]["thread_id"]
        kind, content = self.serde.dumps_typed([checkpoint, metadata])
        await sync_to_async(_keep)(thread_id, checkpoint["id"], kind, content)
        return _config(thread_id, checkpoint["id"])

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See the class."""

    async def alist(self, config: RunnableConfig | None, **_: Any) -> AsyncIterator[CheckpointTuple]:
        found = await self.aget_tuple(config) if config else None
        if found is not None:
            yield found

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Strings that sort as they count."""
        return f"{int(current or 0) + 1:032}"


def _keep(thread_id: Any, checkpoint_id: str, kind: str, content: bytes) -> None:
    values = {"checkpoint_id": checkpoint_id, "type": kind, "content": content}
    models.Checkpoint.objects.update_or_create(thread_id=thread_id, defaults=values)


def _config(thread_id: Any, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": str(thread_id), "checkpoint_ns": "", "checkpoint_id": checkpoint_id}}
