"""The mail server for mailhub's own mail: it marks every mail as mailhub's own."""

import smtplib
from collections.abc import Sequence
from typing import Literal

from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.smtp import EmailBackend

from accounts.infra.database import give_back_connection
from accounts.people.own_mail import HEADER, new_mark

# taken; refused for good; certainly not sent, so a retry makes sense; or the answer was lost.
Posted = Literal["taken", "refused", "not_sent", "unknown"]
PERMANENT = 500


class OwnMailBackend(EmailBackend):
    """Django's SMTP backend. All own mail passes here, so no code can forget the mark."""

    def open(self) -> bool | None:
        give_back_connection()
        return super().open()

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        for message in email_messages:
            message.extra_headers[HEADER] = new_mark()
        return super().send_messages(email_messages) or 0


def post(message: EmailMessage) -> tuple[Posted, str]:
    """Make one attempt to send own mail; return what is known about it, and the server's answer.

    The answer is for the recipient: it may name their address.
    """
    connection = get_connection()
    try:
        connection.open()
    except OSError as error:  # the base of smtplib's errors
        return "not_sent", str(error)
    try:
        sent = connection.send_messages([message])
    except smtplib.SMTPRecipientsRefused as refused:
        code, text = next(iter(refused.recipients.values()))
        return _judge(code), f"{code} {_read(text)}"
    except smtplib.SMTPResponseException as refused:
        return _judge(refused.smtp_code), f"{refused.smtp_code} {_read(refused.smtp_error)}"
    except smtplib.SMTPNotSupportedError as refused:
        return "refused", str(refused)
    except OSError as error:  # the connection broke, perhaps after the message
        return "unknown", str(error)
    finally:
        connection.close()
    return ("taken", "") if sent else ("not_sent", "")


def _judge(code: int) -> Posted:
    return "refused" if code >= PERMANENT else "not_sent"


def _read(answer: bytes | str) -> str:
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer
