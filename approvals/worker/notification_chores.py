"""The sweep's tasks for notifications of people, and the questions whether each has work."""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now

from approvals.notifications import courier, digest, gather, outbox, reminders
from approvals.worker.background import Background

# Threads of their own: a slow channel delays neither the sweep nor other channels.
DELIVERIES = Background("notifications", courier.find_waiting, courier.deliver)
CHORES: dict[str, Callable[[], object] | Background] = {
    "unread": gather.gather_all,
    "to_remind": reminders.remind,
    "digests": digest.add_due,
    "lost": courier.end_lost,
    "to_notify": DELIVERIES,
    "to_withdraw": DELIVERIES,
}


def questions() -> dict[str, QuerySet[Any, Any]]:
    """Return the possible work of each task."""
    return {
        "unread": gather.find_unread(),
        "to_remind": reminders.find_due(Now()),
        "digests": digest.find_due(Now()),
        "lost": outbox.find_lost(Now()),
        "to_notify": outbox.find_due(Now()),
        "to_withdraw": outbox.find_withdrawn(Now()),
    }
