"""A provider made of four parts, each built by its vendor from the same client."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from tools.providers.base import (
    AttachmentInfo,
    Drafts,
    Envelope,
    Evidence,
    Folder,
    Handover,
    Message,
    Page,
    Reader,
    Receipt,
    SearchQuery,
    Sender,
    StoredDraft,
    Thread,
    always_held,
)
from tools.providers.notes import DraftNotes


class ComposedProvider:
    """The calls of `MailProvider`, each passed on to the part that it belongs to."""

    reader: Reader
    drafts: Drafts
    sender: Sender
    evidence: Evidence

    def list_messages(
        self, *, folder: str, unread: bool | None, limit: int, page_token: str | None
    ) -> Page:
        return self.reader.list_messages(
            folder=folder, unread=unread, limit=limit, page_token=page_token
        )

    def list_folders(self) -> tuple[Folder, ...]:
        return self.reader.list_folders()

    def search(self, query: SearchQuery, *, limit: int, page_token: str | None) -> Page:
        return self.reader.search(query, limit=limit, page_token=page_token)

    def read_message(self, message_id: str, *, body: bool) -> Message:
        return self.reader.read_message(message_id, body=body)

    def read_thread(
        self, message_id: str, *, limit: int, body: bool = True, answers_to: Sequence[str] = ()
    ) -> Thread:
        return self.reader.read_thread(message_id, limit=limit, body=body, answers_to=answers_to)

    def read_arrivals(self, since: datetime, *, limit: int) -> Thread:
        return self.reader.read_arrivals(since, limit=limit)

    def fetch_attachment(
        self, message_id: str, attachment_id: str, *, limit: int
    ) -> tuple[AttachmentInfo, bytes]:
        return self.reader.fetch_attachment(message_id, attachment_id, limit=limit)

    def id_of_number(self, number: int, *, folder: str) -> str:
        return self.reader.id_of_number(number, folder=folder)

    def save_draft(self, source: bytes, *, replaces: str | None = None) -> StoredDraft:
        return self.drafts.save_draft(source, replaces=replaces)

    def read_draft(self, draft_id: str) -> StoredDraft:
        return self.drafts.read_draft(draft_id)

    def delete_draft(self, draft_id: str) -> None:
        self.drafts.delete_draft(draft_id)

    def check(self, envelope: Envelope) -> None:
        self.sender.check(envelope)

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        return self.sender.send(envelope, handover)

    def mark(self, message_id: str, flag: Literal["answered", "forwarded"]) -> None:
        self.sender.mark(message_id, flag)

    def save_sent_copy(
        self, source: bytes, message_id: str, *, check_lease: Callable[[], None] = always_held
    ) -> int:
        return self.sender.save_sent_copy(source, message_id, check_lease=check_lease)

    @property
    def can_find_sent(self) -> bool:
        return self.evidence.can_find_sent

    def find_sent(self, message_id: str) -> str | None:
        return self.evidence.find_sent(message_id)

    def differs_in_sent(self, message_id: str, envelope: Envelope) -> tuple[str, ...]:
        return self.evidence.differs_in_sent(message_id, envelope)

    def is_unsent(self, prepared: DraftNotes) -> bool:
        return self.evidence.is_unsent(prepared)

    def discard(self, prepared: DraftNotes) -> bool:
        return self.evidence.discard(prepared)

    def destroy(self, prepared: DraftNotes) -> bool:
        return self.evidence.destroy(prepared)

    def is_prepared(self, prepared: DraftNotes, draft: StoredDraft) -> bool:
        return self.evidence.is_prepared(prepared, draft)
