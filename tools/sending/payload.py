"""The payload of a mail: everything that determines its effect, as the digest covers it."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from tools.mail.html.clean import text_of
from tools.mail.message.compose import OutgoingMessage
from tools.providers.base import Envelope
from tools.stored import Stored

Sort = Literal["send", "reply", "forward"]
Kind = Literal["mail.send", "mail.reply", "mail.forward"]
KINDS: dict[Sort, Kind] = {"send": "mail.send", "reply": "mail.reply", "forward": "mail.forward"}
SORTS: dict[Kind, Sort] = {kind: sort for sort, kind in KINDS.items()}
VERSION: Literal[1] = 1


class FileDigest(Stored):
    """An attachment of a mail, as the digest covers it."""

    name: str
    type: str
    size: int
    sha256: str


class ProposedDraft(Stored):
    """The draft that a mail sends, in the version that was proposed."""

    id: str
    sha256: str


class StoredFollowUp(Stored):
    """The wish to learn that nobody has answered after some days."""

    after_days: int
    note: str = ""


# JSON has no tuples, so these members take lists too.
Texts = Annotated[tuple[str, ...], Field(strict=False)]
FileDigests = Annotated[tuple[FileDigest, ...], Field(strict=False)]


class MailPayload(Stored):
    """The payload of mail.send, mail.reply and mail.forward.

    The members with a default may be missing in what is stored. Another set of members needs
    another version.
    """

    version: Literal[1] = VERSION
    kind: Kind
    mailbox: str
    sender: str = Field(alias="from")
    to: Texts
    cc: Texts
    bcc: Texts
    subject: str
    text: str
    html: str | None
    attachments: FileDigests
    importance: Literal["low", "normal", "high"]
    in_reply_to: str
    references: Texts
    original: str
    reply_all: bool = False
    comment: str = ""
    draft: ProposedDraft | None
    send_at: str | None
    save_to_sent_items: bool
    message_id: str
    source_sha256: str
    revised: bool = False  # a reviewer has edited it
    unless_answered: bool = False  # withdrawn if somebody answers before it leaves
    follow_up: StoredFollowUp | None = None

    @property
    def sort(self) -> Sort:
        return SORTS[self.kind]

    @property
    def leaves_from(self) -> datetime | None:
        """Return the time before which the mail does not leave, or None."""
        return datetime.fromisoformat(self.send_at) if self.send_at else None

    @property
    def conditions(self) -> dict[str, Any]:
        """Return what the proposer asked for around the send, as its action repeats it."""
        asked: dict[str, Any] = {"unless_answered": True} if self.unless_answered else {}
        if self.follow_up:
            asked["follow_up"] = {"after_days": self.follow_up.after_days}
        return asked

    @property
    def recipients(self) -> tuple[str, ...]:
        """Return the recipients of the envelope, Bcc included."""
        return (*self.to, *self.cc, *self.bcc)

    @property
    def lacks_quote(self) -> bool:
        """Return True if an earlier version let the provider write the quote, so the text has none.

        The comment may be HTML. mailhub itself always writes at least a line above the quote.
        """
        is_own = bool(self.original) and self.html is None and not self.revised
        return is_own and text_of(self.comment).split() == self.text.split()

    def envelope(self, source: bytes) -> Envelope:
        """Return what a provider sends, with this message."""
        return Envelope(
            sender=self.sender,
            recipients=self.recipients,
            source=source,
            # An edited mail is more than a comment on an original: it leaves as its own bytes, and
            # an answer stays in its thread.
            kind="send" if self.revised and not self.in_reply_to else self.sort,
            original=self.original,
            save_to_sent=self.save_to_sent_items,
        )

    def with_content(self, message: OutgoingMessage, *, send_at: datetime | None) -> Self:
        """Return the payload of the same mail after a reviewer's edit."""
        request = message.request
        edited = {
            "to": request.to,
            "cc": request.cc,
            "bcc": request.bcc,
            "subject": request.subject,
            "text": request.content.text,
            "html": request.content.html,
            "attachments": file_digests(message),
            "send_at": send_at.isoformat() if send_at else None,
            "source_sha256": message.sha256,
            "revised": True,
        }
        return self.model_copy(update=edited)


def file_digests(message: OutgoingMessage) -> tuple[FileDigest, ...]:
    """Return the attachments of the message, in their order."""
    return tuple(FileDigest.from_json(file.as_json()) for file in message.request.attachments)
