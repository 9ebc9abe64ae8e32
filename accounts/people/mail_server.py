"""The mail server for mailhub's own mail: it marks every mail as mailhub's own."""

from collections.abc import Sequence

from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend

from accounts.people.own_mail import HEADER, new_mark


class OwnMailBackend(EmailBackend):
    """Django's SMTP backend. All own mail passes here, so no code can forget the mark."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        for message in email_messages:
            message.extra_headers[HEADER] = new_mark()
        return super().send_messages(email_messages) or 0
