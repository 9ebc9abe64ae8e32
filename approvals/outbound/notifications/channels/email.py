"""Notifications by e-mail, as mailhub's own mail to the proven address of the account."""

from django.conf import settings
from django.core.mail import EmailMessage
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import translation

from accounts.infra.foreign_text import parse_url
from accounts.people.mail_server import post
from approvals.models import Content, NotificationChannel
from approvals.outbound.notifications.channels.port import DeliveryAnswer, NotificationMessage

NO_SERVER = "no_mail_server"
NO_ADDRESS = "address_not_proven"


class Email:
    """The transport of e-mail. A mail cannot be taken back."""

    most = Content.PREVIEW
    withdraws = False

    def send(self, channel: NotificationChannel, message: NotificationMessage) -> DeliveryAnswer:
        """Send one mail; it goes only to an address that its person has proven."""
        if not settings.SENDS_MAIL:
            return DeliveryAnswer(result="not_sent", code=NO_SERVER)
        if channel.user.address_proven_at is None:
            return DeliveryAnswer(result="gone", code=NO_ADDRESS)
        with translation.override(message.language):
            mail = _write(channel, message)
        result, answer = post(mail)
        code = "" if result == "taken" else f"smtp_{result}"
        return DeliveryAnswer(result=result, code=code, detail=answer)

    def withdraw(
        self, channel: NotificationChannel, receipt: str, *, waiting: int
    ) -> DeliveryAnswer:
        return DeliveryAnswer(result="refused", code="cannot_withdraw")


def _write(channel: NotificationChannel, message: NotificationMessage) -> EmailMessage:
    values = {
        "message": message,
        "settings_url": settings.MAILHUB_PUBLIC_URL + reverse("notifications"),
    }
    host = parse_url(settings.MAILHUB_PUBLIC_URL).hostname or "localhost"
    return EmailMessage(
        message.title,
        render_to_string("approvals/notification_mail.txt", values),
        to=[channel.user.email],
        # RFC 3834: no automatic answer to it.
        headers={
            "Message-ID": f"<{message.id.hex}@{host}>",  # the same in each attempt
            "Auto-Submitted": "auto-generated",
        },
    )
