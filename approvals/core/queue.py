"""The port to a queue: it sends notifications, and says whether its server answers.

The row of the action is the outbox. A queue carries notifications only.
"""

from functools import cache
from typing import Protocol, cast
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string


class Queue(Protocol):
    def notify(self, action_id: UUID) -> None:
        """Wake up a worker. The notification carries only the id; it may be lost or doubled."""
        ...

    def answers(self) -> bool:
        """Return True if the server of the queue answers; it is known within about a second."""
        ...


@cache
def queue() -> Queue:
    """Return the queue that settings.MAILHUB_QUEUE names."""
    return cast(Queue, import_string(settings.MAILHUB_QUEUES[settings.MAILHUB_QUEUE])())
