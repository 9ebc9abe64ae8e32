"""Adding a channel: the browser of this person, or a chat or phone service; and the end of push."""

import hashlib
import json
from typing import Any

from django.conf import settings
from django.db import transaction

from accounts.infra.texts import translatable
from accounts.models import User
from approvals.models import NotificationChannel
from approvals.outbound.notifications.channels.web_push import private_key_of, read_subscription

AT_MOST = 20
Kind = NotificationChannel.Kind


def add_push(
    person: User, subscription: dict[str, str], *, label: str, device: str = ""
) -> NotificationChannel:
    """Add the browser with this subscription, or renew it; raises ValueError with a sentence.

    A browser belongs to the person who turned it on last: the channel of another person, who used
    it before and did not sign out, ends.
    """
    address = json.dumps(subscription)
    found = read_subscription(address)
    secure = found is not None and (
        found["endpoint"].startswith("https://") or bool(settings.MAILHUB_LOOPBACK_FOR_PEOPLE)
    )
    if found is None or not secure or private_key_of(found["key"]) is None:
        raise ValueError(translatable("The browser gave no usable subscription. Try again."))
    mine = None
    # Addresses are encrypted, so each is opened. It costs microseconds for each browser of this
    # server, at most AT_MOST for a person, and only when somebody turns notifications on.
    for channel in NotificationChannel.objects.filter(kind=Kind.WEB_PUSH):
        known = read_subscription(channel.address)
        if not known or known["endpoint"] != found["endpoint"]:
            continue
        if channel.user_id == person.pk:
            mine = channel
        else:
            channel.delete()
    if mine:
        mine.address, mine.label, mine.device, mine.failures = address, label, device, 0
        mine.paused_at, mine.pause_code = None, ""
        mine.save()
        return mine
    return _add(person, Kind.WEB_PUSH, address, label, device)


def remove_push(sender: Any, person: User | None, device: str, *, others: bool, **_: Any) -> None:
    """Receive the signal that a browser was signed out, all but one, or all of everybody: push ends
    there.
    """
    found = NotificationChannel.objects.filter(user=person, kind=Kind.WEB_PUSH)
    if person is None:
        found = NotificationChannel.objects.filter(kind=Kind.WEB_PUSH)
    if device:
        found = found.exclude(device=device) if others else found.filter(device=device)
    if device or others:
        found.delete()


def remove_chat(sender: Any, person: User, *, of: str, **_: Any) -> None:
    """End the chat services of an account that loses its rights: others may have added them."""
    if of == "account":
        NotificationChannel.objects.filter(user=person, kind=Kind.APPRISE).delete()


def add_chat(person: User, address: str, *, label: str) -> NotificationChannel:
    """Add a chat or phone service; raises ValueError with a sentence."""
    from approvals.outbound.notifications.channels.services import read_address  # brings requests

    service, _plugin = read_address(address)
    return _add(person, Kind.APPRISE, address, label or service.name)


def known_browsers(person: User) -> str:
    """Return short digests of the addresses of a person's browsers, for the page to find its own."""
    found = [
        read_subscription(channel.address)
        for channel in NotificationChannel.objects.filter(
            user=person, kind=Kind.WEB_PUSH, paused_at=None
        )
    ]
    return " ".join(
        hashlib.sha256(each["endpoint"].encode()).hexdigest()[:16] for each in found if each
    )


@transaction.atomic
def _add(
    person: User, kind: str, address: str, label: str, device: str = ""
) -> NotificationChannel:
    # Two at once are counted one after the other.
    User.objects.select_for_update(no_key=True).get(pk=person.pk)
    if NotificationChannel.objects.filter(user=person).count() >= AT_MOST:
        raise ValueError(
            translatable("You have %(count)s channels. Remove one first.", count=AT_MOST)
        )
    return NotificationChannel.objects.create(
        user=person, kind=kind, address=address, label=label[:100], device=device[:40]
    )
