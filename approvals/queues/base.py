"""The port to a queue: one method. The row is the outbox; a queue only rings the bell."""

from functools import cache
from typing import Protocol, cast
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string


class Queue(Protocol):
    def ring(self, action_id: UUID) -> None:
        """Wake a worker. May be lost and may be doubled; it carries the id and nothing else."""
        ...


@cache
def queue() -> Queue:
    """The queue that settings.MAILHUB_QUEUE names."""
    return cast(Queue, import_string(settings.MAILHUB_QUEUES[settings.MAILHUB_QUEUE])())
