"""The sweep's tasks for notifications of people, and the questions whether each has work."""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now

from approvals.outbound.notifications import courier, digest, gather, outbox, reminders
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
    """Return the possible work of each task, in the order of its index.

    Without an order, PostgreSQL expects a row soon and reads the whole table if nothing matches.
    """
    return {
        "unread": gather.find_unread().order_by("pk"),
        "to_remind": reminders.find_due(Now()).order_by("due_at"),
        "digests": digest.find_due(Now()).order_by("digest_due_at"),
        "lost": outbox.find_lost(Now()).order_by("due_at"),
        "to_notify": outbox.find_due(Now()).order_by("due_at"),
        "to_withdraw": outbox.find_withdrawn(Now()).order_by("withdraw_at"),
    }
