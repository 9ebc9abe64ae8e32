"""A person's channel and a message for it, without a worker."""

import json
from typing import Any
from uuid import uuid4

from accounts.models import User
from approvals.models import NotificationChannel
from approvals.outbound.notifications.channels.port import (
    DeliveryAnswer,
    NotificationItem,
    NotificationMessage,
    get_transport,
)

REVIEW = "http://localhost:8000/actions/0194/"


def message(**changes: Any) -> NotificationMessage:
    """Return a message about one mail that waits."""
    item = {
        "stage": "waiting",
        "why": "It waits for you",
        "url": REVIEW,
        "sender": "Support bot",
        "subject": "Delivery on Thursday",
        **changes.pop("item", {}),
    }
    return NotificationMessage(
        **{
            "id": uuid4(),
            "title": "1 mail waits for you",
            "url": REVIEW,
            "items": (NotificationItem(**item),),
            "waiting": 1,
            **changes,
        }
    )


def channel_of(person: User, kind: str, address: Any) -> NotificationChannel:
    text = address if isinstance(address, str) else json.dumps(address)
    return NotificationChannel.objects.create(user=person, kind=kind, address=text)


def send(channel: NotificationChannel, **changes: Any) -> DeliveryAnswer:
    stored = NotificationChannel.objects.get(pk=channel.pk)
    return get_transport(stored.kind).send(stored, message(**changes))
