"""Whether a mail has left over SMTP: only the search in Sent can tell."""

from tools.providers.base import Envelope, StoredDraft
from tools.providers.errors import NotFound
from tools.providers.imap.mailbox import ImapMailbox
from tools.providers.notes import DraftNotes


class ImapEvidence:
    """The evidence in one mailbox. Nothing is prepared: SMTP takes a message at once or not at
    all.
    """

    can_find_sent = True

    def __init__(self, mailbox: ImapMailbox) -> None:
        self._mailbox = mailbox

    def find_sent(self, message_id: str) -> str | None:
        with self._mailbox.session() as session:
            try:
                folder = self._mailbox.find_folder(session, "sent")
            except NotFound:
                return None  # a mailbox without this folder keeps no trace
            self._mailbox.select(session, folder)
            return next(iter(self._mailbox.find_sent_as(session, message_id)), None)

    def differs_in_sent(self, message_id: str, envelope: Envelope) -> tuple[str, ...]:
        return ()  # no draft was prepared, so nobody could change it

    def is_unsent(self, prepared: DraftNotes) -> bool:
        return False

    def discard(self, prepared: DraftNotes) -> bool:
        return True

    def destroy(self, prepared: DraftNotes) -> bool:
        return False

    def is_prepared(self, prepared: DraftNotes, draft: StoredDraft) -> bool:
        return False
