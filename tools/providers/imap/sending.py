"""Sending over SMTP, and the traces of it in the IMAP folders."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from django.conf import settings

from accounts.connect.imap import open_smtp
from tools.mail.message import lenient
from tools.providers.base import Envelope, Flag, Handover, Receipt, always_held
from tools.providers.imap.mailbox import ImapMailbox, map_errors
from tools.providers.imap.smtp import hand_over
from tools.providers.imap.smtp_sessions import SESSIONS

FLAGS = {"answered": rb"\Answered", "forwarded": rb"$Forwarded"}


class ImapSender:
    """The sending part: one SMTP dialogue for a mail. There is no draft to compare, so it has no `send_draft`."""

    def __init__(self, mailbox: ImapMailbox) -> None:
        self._mailbox = mailbox

    def check(self, envelope: Envelope) -> None:
        """Do nothing, because only the server can refuse it."""

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        seconds = settings.MAILHUB_WIRE_TIMEOUT_SECONDS
        key = self._mailbox.key
        with map_errors():
            smtp = SESSIONS.take(key, seconds) or open_smtp(self._mailbox.access, seconds=seconds)
        receipt = hand_over(
            smtp, envelope, wire_started=handover.start_wire, answer_seconds=seconds
        )
        SESSIONS.keep(key, smtp)
        return replace(receipt, date=lenient.date_of(lenient.headers(envelope.source), receipt.at))

    def mark(self, message_id: str, flag: Flag) -> None:
        with self._mailbox.session() as session:
            place = self._mailbox.open_message(session, message_id, writable=True)
            session.client.add_flags([place.uid], [FLAGS[flag]])

    def save_sent_copy(
        self, source: bytes, message_id: str, *, check_lease: Callable[[], None] = always_held
    ) -> int:
        with self._mailbox.session(uploaded=len(source)) as session:
            folder = self._mailbox.find_folder(session, "sent", creates=True)
            self._mailbox.select(session, folder)
            there = self._mailbox.find_sent_as(session, message_id)
            if not there:
                check_lease()
                date = lenient.date_of(lenient.headers(source), datetime.now(UTC))
                session.append(folder, source, flags=(rb"\Seen",), at=date)
            return len(there)
