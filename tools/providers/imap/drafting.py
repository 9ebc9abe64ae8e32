"""Drafts on IMAP: append the new draft first, then remove only the one that it replaces
(RFC 4315).
"""

from accounts.infra.texts import translatable
from tools.mail.message import lenient
from tools.providers.base import NOT_A_DRAFT, StoredDraft
from tools.providers.errors import NotFound, Refused
from tools.providers.imap.mailbox import SAFE_MESSAGE_ID, ImapMailbox, body_of
from tools.providers.imap.sessions import Session

DRAFT_LIMIT = 40 * 1024 * 1024


class ImapDrafts:
    """The drafts of one mailbox; it changes the drafts folder only."""

    def __init__(self, mailbox: ImapMailbox) -> None:
        self._mailbox = mailbox

    def save_draft(self, source: bytes, *, replaces: str | None = None) -> StoredDraft:
        with self._mailbox.session(uploaded=len(source)) as session:
            folder = self._mailbox.find_folder(session, "drafts", creates=True)
            old_uid = (
                self._draft_uid(session, replaces, writable=True) if replaces is not None else None
            )
            old_id = self._mailbox.read_message_id(session, old_uid) if old_uid is not None else ""
            validity = session.uid_validity
            session.append(folder, source, flags=(rb"\Draft", rb"\Seen"))
            # APPENDUID may be missing, and the folder may be rebuilt in between: the Message-ID
            # finds both drafts again.
            session.folder = None
            self._mailbox.select(session, folder, writable=old_uid is not None)
            uid = self._uid_by_message_id(
                session, lenient.decode_text(lenient.headers(source)["Message-ID"])
            )
            if old_uid is not None:
                still_old = (
                    old_uid
                    if session.uid_validity == validity
                    else self._uid_by_message_id(session, old_id)
                )
                self._remove(session, still_old)
            return StoredDraft(id=self._mailbox.make_id(session, uid), number=uid, source=source)

    def read_draft(self, draft_id: str) -> StoredDraft:
        with self._mailbox.session() as session:
            uid = self._draft_uid(session, draft_id)
            rows = session.client.fetch([uid], [f"BODY.PEEK[]<0.{DRAFT_LIMIT}>"])
            if uid not in rows:
                raise NotFound(NOT_A_DRAFT)
            return StoredDraft(id=draft_id, number=uid, source=body_of(rows[uid]))

    def delete_draft(self, draft_id: str) -> None:
        with self._mailbox.session() as session:
            self._remove(session, self._draft_uid(session, draft_id, writable=True))

    def _draft_uid(self, session: Session, draft_id: str, *, writable: bool = False) -> int:
        """Return the UID of a draft, with the drafts folder selected."""
        folder = self._mailbox.find_folder(session, "drafts")
        place = self._mailbox.open_message(session, draft_id, writable=writable)
        if place.folder != folder:
            raise Refused("not_a_draft", NOT_A_DRAFT)
        if not self._mailbox.is_present(session, place.uid):
            raise NotFound(
                translatable(
                    "The draft is gone, or a change gave it another id. Call list_drafts to see what is there."
                ),
            )
        return place.uid

    def _remove(self, session: Session, uid: int) -> None:
        """Remove one message and nothing else.

        Without UIDPLUS it stays marked as deleted, because a bare EXPUNGE would remove every marked
        message.
        """
        session.client.add_flags([uid], [rb"\Deleted"])
        if session.client.has_capability("UIDPLUS"):
            session.client.uid_expunge([uid])

    def _uid_by_message_id(self, session: Session, message_id: str) -> int:
        if SAFE_MESSAGE_ID.fullmatch(message_id):
            for uid in self._mailbox.find_by_id(session, "Message-ID", message_id, "UNDELETED"):
                return uid
        raise NotFound(NOT_A_DRAFT)
