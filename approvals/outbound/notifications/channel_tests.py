"""The test of a channel: one message without content, at once, with the channel's real answer."""

import uuid

from django.conf import settings
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.access.provider_calls import limit_waiting
from accounts.access.quotas import Quota, take
from accounts.infra.texts import translatable
from approvals.models import NotificationChannel
from approvals.outbound.notifications import courier
from approvals.outbound.notifications.channels.port import (
    DeliveryAnswer,
    NotificationItem,
    NotificationMessage,
    get_transport,
)

PER_HOUR = 10
TESTS = Quota(
    name="channel-tests",
    amount=PER_HOUR,
    seconds=courier.HOUR,
    refusal=translatable("You have sent too many tests within an hour. Try again later."),
)


def send_test(channel: NotificationChannel) -> DeliveryAnswer:
    """Send a test and return the answer; raises Problem `rate_limited` or `transient`."""
    take(TESTS, f"user:{channel.user_id}")
    language = channel.user.language or settings.LANGUAGE_CODE
    url = settings.MAILHUB_PUBLIC_URL + reverse("notifications")
    with translation.override(language):
        why = _("This is a test of your notifications. Nothing waits for you.")
        message = NotificationMessage(
            id=uuid.uuid4(),
            title=_("Test of your notifications"),
            url=url,
            items=(NotificationItem(stage="test", why=why, url=url),),
            language=language,
        )
    with limit_waiting(channel.user_id):
        return courier.call(get_transport(channel.kind), channel, message)
