"""The port to a queue: ring, and say whether anybody would hear it.

The row is the outbox; a queue only rings.
"""

from functools import cache
from typing import Protocol, cast
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string


class Queue(Protocol):
    def ring(self, action_id: UUID) -> None:
        """Wake a worker. May be lost and may be doubled; it carries the id and nothing else."""
        ...

    def answers(self) -> bool:
        """Whether the server behind the bell is there, found out within about a second."""
        ...


@cache
def queue() -> Queue:
    """The queue that settings.MAILHUB_QUEUE names."""
    return cast(Queue, import_string(settings.MAILHUB_QUEUES[settings.MAILHUB_QUEUE])())
