"""Sending through Gmail: a draft of the approved bytes is read back, compared, and sent once by its
id.

It is sent by its id only, because bytes in the request would change it and so destroy the proof
that it was not sent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from accounts.infra.texts import translatable
from tools.mail.message import lenient
from tools.providers.base import Envelope, Flag, Handover, Receipt, always_held
from tools.providers.errors import NotFound, NotSent, OutcomeUnknown, Refused, Unsupported
from tools.providers.gmail import payload
from tools.providers.gmail.content import content_of, topic_of, write_source
from tools.providers.gmail.drafting import GmailDrafts, refuse_too_large
from tools.providers.gmail.evidence import GmailEvidence
from tools.providers.gmail.mailbox import GmailMailbox, message_part
from tools.providers.notes import DraftNotes
from tools.providers.send_draft import DraftGone, send_draft

STAMP_BYTES = 64  # more than the Date header needs, which is added in front when the mail leaves
MISMATCH = translatable("The draft at Gmail differs from the approved content.")
CHANGED = translatable("The prepared draft was changed in the mailbox before it was sent.")
KEEPS_IT = translatable("Gmail keeps a copy of everything it sends.")


class GmailSender:
    """The sending part: each mail goes out as a draft that was compared."""

    def __init__(self, mailbox: GmailMailbox, drafts: GmailDrafts, evidence: GmailEvidence) -> None:
        self._mailbox = mailbox
        self._drafts = drafts
        self._evidence = evidence

    def check(self, envelope: Envelope) -> None:
        refuse_too_large(len(write_source(envelope, marker="")) + STAMP_BYTES)

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        if not envelope.save_to_sent:
            raise Unsupported("refused", KEEPS_IT)
        draft = _GmailDraft(
            envelope=envelope,
            prepared=handover.prepared,
            marker=lenient.decode_text(lenient.headers(envelope.source)["Message-ID"]),
            mailbox=self._mailbox,
            drafts=self._drafts,
            evidence=self._evidence,
        )
        return send_draft(draft, handover)

    def save_sent_copy(
        self, source: bytes, message_id: str, *, check_lease: Callable[[], None] = always_held
    ) -> int:
        """Do nothing, because Gmail keeps the copy itself."""
        return 1

    def mark(self, message_id: str, flag: Flag) -> None:
        """Check the id only: Gmail shows the conversation, so there is no flag to set."""
        message_part(message_id)


@dataclass(frozen=True, kw_only=True)
class _GmailDraft:
    """One approved mail as a draft at Gmail.

    The notes name the draft and its message. Each change of the draft gives it another message.
    """

    envelope: Envelope
    prepared: DraftNotes  # the notes of the earlier attempt
    marker: str
    mailbox: GmailMailbox
    drafts: GmailDrafts
    evidence: GmailEvidence

    def take_up(self, handover: Handover) -> DraftNotes | None:
        """Return the notes on the draft.

        If the earlier notes name a marker but no draft, the answer to the draft's creation was
        lost: look for the draft, and raise DraftGone if the mailbox owner has sent it.
        """
        if self.prepared.draft:
            return self.prepared
        if not self.prepared.marker:
            return None
        found = self.evidence.find_lost_draft(self.marker)
        if found is None:
            if self.evidence.find_sent(self.marker):
                raise DraftGone
            return None
        handover.keep(found)
        return found

    def create(self) -> DraftNotes:
        source = write_source(self.envelope, self.marker)
        stored = self.drafts.put(source, thread=self._find_thread())
        return DraftNotes(marker=self.marker, draft=stored["id"], message=stored["message"]["id"])

    def fill(self, notes: DraftNotes) -> None:
        """Do nothing, because Gmail takes all bytes of a draft at once."""

    def read_back(self, notes: DraftNotes) -> dict[str, Any]:
        try:
            return self.mailbox.get_draft(notes.draft, fmt="raw", patient=False)
        except NotFound:
            raise DraftGone from None

    def compare(self, notes: DraftNotes, read: dict[str, Any]) -> DraftNotes:
        source = payload.decode_base64(read["message"].get("raw", ""))
        if self.prepared.draft and read["message"]["id"] != notes.message:
            raise Refused("draft_changed", CHANGED)
        approved = write_source(self.envelope, self.marker)
        if source != approved and content_of(source) != content_of(approved):
            raise Refused("readback_mismatch", MISMATCH)
        return notes

    def send(self, notes: DraftNotes, wire_started: Callable[[], None]) -> str:
        answer = self.mailbox.client.send(
            "drafts.send",
            lambda users: users.drafts().send(userId="me", body={"id": notes.draft}),
            wire_started=wire_started,
        )
        return str((answer or {}).get("id", ""))

    def is_still_there(self, notes: DraftNotes) -> bool:
        try:
            self.mailbox.get_draft(notes.draft, fmt="minimal", patient=False)
        except NotFound:
            return False
        return True

    def classify(self, gone: DraftGone) -> Receipt:
        """Return the receipt of a draft that is gone: the owner sent or deleted it.

        If the lookup fails, only the lookup certainly sent nothing. It says nothing about the mail,
        so the result is OutcomeUnknown.
        """
        try:
            found = self.evidence.find_sent(self.marker)
            changed = self.evidence.differs_in_sent(self.marker, self.envelope) if found else ()
        except NotSent:
            raise OutcomeUnknown(
                "draft_gone", "The prepared draft is gone, and Sent could not be searched."
            ) from None
        if found is None:
            raise OutcomeUnknown(
                "draft_gone", "The prepared draft is gone and the mail is not in Sent."
            )
        return Receipt(at=datetime.now(UTC), changed=changed)

    def _find_thread(self) -> str:
        """Return the conversation that the mail answers in, or an empty string; its headers then
        keep it together.

        The bytes decide whether it is an answer, because a mail that a reviewer edited no longer
        has the kind of one. If the subject differs from the original's, Gmail adds the mail to no
        conversation (https://developers.google.com/workspace/gmail/api/guides/threads).
        """
        block = lenient.headers(self.envelope.source)
        if not block["In-Reply-To"]:
            return ""
        named = self.envelope.original or self.drafts.find_parent(block, patient=False).get(
            "id", ""
        )
        try:
            original = self.mailbox.get_message(
                message_part(named),
                fmt="metadata",
                fields="threadId,payload(headers)",
                patient=False,
            )
        except NotFound:
            return ""
        same = topic_of(payload.headers(original.get("payload", {}))) == topic_of(block)
        return str(original.get("threadId", "")) if same else ""
