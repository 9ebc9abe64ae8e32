"""A mailbox behind IMAP and SMTP."""

from collections.abc import Mapping
from typing import Any, Literal

from django.conf import settings

from accounts.connect.imap import open_smtp, prove
from tools.providers.base import Envelope, Handover, Receipt, StoredDraft
from tools.providers.imap.drafting import ImapDrafts
from tools.providers.imap.mailbox import errors_translated
from tools.providers.imap.reading import ImapReading
from tools.providers.imap.smtp import hand_over

FLAGS = {"answered": rb"\Answered", "forwarded": rb"$Forwarded"}


class ImapProvider(ImapReading, ImapDrafts):
    name = "imap"
    send_scope = "SMTP"
    writes_quote = False
    always_keeps_copy = False

    def test(self) -> None:
        with errors_translated():
            prove(self._access)

    def check(self, envelope: Envelope) -> None:
        """Do nothing, because only the server can refuse it."""

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        seconds = settings.MAILHUB_WIRE_TIMEOUT_SECONDS
        with errors_translated():
            smtp = open_smtp(self._access, seconds=seconds)
        return hand_over(smtp, envelope, wire_started=handover.wire_started, answer_seconds=seconds)

    def differs_in_sent(self, message_id: str, envelope: Envelope) -> tuple[str, ...]:
        return ()  # no draft was prepared, so nobody could change it

    def is_unsent(self, prepared: Mapping[str, Any]) -> bool:
        return False  # nothing is prepared: SMTP takes a message at once or not at all

    def discard(self, prepared: Mapping[str, Any]) -> None:
        pass

    def destroy(self, prepared: Mapping[str, Any]) -> bool:
        return False

    def is_prepared(self, prepared: Mapping[str, Any], draft: StoredDraft) -> bool:
        return False

    def find_sent(self, message_id: str) -> str | None:
        with self._session() as session:
            self._select(session, self._folder(session, "sent"))
            return self._sent_as(session, message_id)

    def save_sent_copy(self, source: bytes, message_id: str) -> None:
        with self._session(uploaded=len(source)) as session:
            folder = self._folder(session, "sent")
            self._select(session, folder)
            if self._sent_as(session, message_id) is None:
                session.client.append(folder, source, flags=(rb"\Seen",))

    def mark(self, message_id: str, flag: Literal["answered", "forwarded"]) -> None:
        with self._session() as session:
            place = self._open(session, message_id)
            session.client.add_flags([place.uid], [FLAGS[flag]])
