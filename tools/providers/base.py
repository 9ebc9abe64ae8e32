"""The interface of a mailbox provider, and the types that it takes and returns.

The contract suite in `tests/contract/` runs on every provider with the same assertions.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal, Protocol

from accounts.infra.texts import translatable
from tools.mail.message.parts import AttachmentInfo
from tools.mail.message.reading import READ_LIMIT, Inner
from tools.providers.notes import DraftNotes

__all__ = ["READ_LIMIT", "AttachmentInfo"]  # of the reading that all providers share


@dataclass(frozen=True, kw_only=True)
class Card:
    """One row of a list; `number` is its UID and `thread_id` its conversation, if the provider has
    such a thing.

    `own_mark` is the mark that `accounts.people.own_mail` puts on mailhub's own mail, as the header
    has it.
    """

    id: str
    from_address: str
    from_name: str
    subject: str
    date: datetime | None
    snippet: str
    unread: bool
    attachments: int
    to: tuple[str, ...] = ()
    number: int | None = None
    thread_id: str = ""
    own_mark: str | None = ""  # None: lists of this provider have no headers


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of a list. `is_exact`: neither it nor what follows has mail that the query leaves out."""

    cards: tuple[Card, ...]
    next_token: str | None
    hidden: int = 0
    is_exact: bool = False


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder. `role` is one of ROLES or empty; `id` works wherever a folder is asked for.

    `more_inside`: the folder holds folders that are not in the list.
    """

    id: str
    name: str
    role: str
    unread: int | None = None
    total: int | None = None
    more_inside: bool = False


# No provider's protocol can carry these characters, and no mail text contains them.
UNSEARCHABLE = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]+")


@dataclass(frozen=True, kw_only=True)
class SearchQuery:
    """A search; a message must match everything given. `raw` is in the provider's own language.

    Characters that no mail text contains (control characters, halves of a surrogate pair) count as
    spaces, because no provider's protocol can carry them. `without_header` and `not_from` leave out
    mail if the protocol can express that.
    """

    raw: str = ""
    from_: str = ""
    to: str = ""
    subject: str = ""
    text: str = ""
    since: date | None = None
    before: date | None = None
    newer_than_days: int | None = None
    has_attachments: bool | None = None
    unread: bool | None = None
    folder: str = ""
    label_ids: tuple[str, ...] = ()
    without_header: str = ""
    not_from: str = ""

    def __post_init__(self) -> None:
        for name in ("raw", "from_", "to", "subject", "text"):
            object.__setattr__(self, name, UNSEARCHABLE.sub(" ", getattr(self, name)).strip())


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message that was read. `text` and `html` hold all of its text, decoded, at most
    `READ_LIMIT` bytes of each.

    `names` has the display names of the addresses in the headers, by address in lower case. `kind` is
    bounce, receipt, invitation or empty; `facts` belong to it. `notes` are sentences for
    the reader. `inner` are the messages inside this one. `authentication` has the verdicts of the
    mailbox's own server on `spf`, `dkim` and `dmarc`, as far as they are known. `is_sent`: it lies in Sent.
    `is_automatic`: a program answered, or reports about a delivery; then it `is_report` too.
    """

    id: str
    from_address: str
    from_name: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    subject: str
    date: datetime | None
    text: str | None
    html: str | None
    attachments: tuple[AttachmentInfo, ...]
    message_id: str = ""
    references: tuple[str, ...] = ()
    reply_to: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    thread_id: str = ""
    own_mark: str = ""
    kind: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    inner: tuple[Inner, ...] = ()
    authentication: Mapping[str, str] = field(default_factory=dict)
    arrived: datetime | None = None
    is_sent: bool = False
    is_automatic: bool = False
    is_report: bool = False


@dataclass(frozen=True, kw_only=True)
class Thread:
    """A conversation, oldest first; not `is_whole` if a limit or a refused search left some out."""

    messages: tuple[Message, ...]
    is_whole: bool = True


@dataclass(frozen=True, kw_only=True)
class StoredDraft:
    """A draft as the provider holds it: `source` is its bytes, `number` its UID if the provider has
    such a thing.

    `version` changes with every change of the draft. It is empty if the bytes themselves are the
    version.
    """

    id: str
    number: int | None
    source: bytes
    version: str = ""

    @property
    def etag(self) -> str:
        """Return a value that changes when the draft changes."""
        return self.version or hashlib.sha256(self.source).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A mail to hand over: the sender, every recipient, and the exact bytes that leave.

    The other fields are for providers that do not take bytes, or not for everything: the sort of
    mail, and the id of the original.
    """

    sender: str
    recipients: tuple[str, ...]
    source: bytes
    kind: Literal["send", "reply", "forward"] = "send"
    original: str = ""
    save_to_sent: bool = True


Flag = Literal["answered", "forwarded"]


def always_held() -> None:
    """Do nothing, for a caller whose work nobody else can take over."""


def _keep_nothing(notes: DraftNotes) -> None:
    pass


@dataclass(kw_only=True)
class Handover:
    """One attempt to hand a message over.

    `start_wire()` is called directly before the step after which the mail may have gone out. A
    failure before it is NotSent; a missing answer after it is OutcomeUnknown. `order` holds the
    notes on the draft that the order names, before `start_wire`; sending in one call names none.
    `prepared` holds the notes of an earlier attempt, such as the id of a draft. `keep(notes)` commits
    notes for the next attempt, and for the check whether the message is still there.
    """

    wire_started: Callable[[], None]
    prepared: DraftNotes = field(default_factory=DraftNotes)
    keep: Callable[[DraftNotes], None] = _keep_nothing
    order: DraftNotes = field(default_factory=DraftNotes)
    on_wire: bool = False

    def start_wire(self) -> None:
        self.wire_started()
        self.on_wire = True


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The provider's answer when it accepted the message; `reference` holds no address.

    `changed` names the differences from the approved message if somebody else has sent the prepared
    draft. `date` is the Date of the message if mailhub saves the copy in Sent.
    """

    at: datetime
    date: datetime | None = None
    reference: str = ""
    changed: tuple[str, ...] = ()


class Reader(Protocol):
    """The part of a provider that reads the mailbox."""

    def list_messages(
        self, *, folder: str, unread: bool | None, limit: int, page_token: str | None
    ) -> Page:
        """Return a page of messages, newest first.

        `folder` is a role (inbox, sent, drafts, …) or a name. Raises NotFound.
        """
        ...

    def list_folders(self) -> tuple[Folder, ...]: ...

    def search(self, query: SearchQuery, *, limit: int, page_token: str | None) -> Page:
        """Return a page of matching messages, newest first.

        Raises Refused("invalid_query") if the provider does not understand the query.
        """
        ...

    def read_message(self, message_id: str, *, body: bool) -> Message:
        """Return the message; raise NotFound for an unknown, malformed or
        foreign id.
        """
        ...

    def read_thread(
        self, message_id: str, *, limit: int, body: bool = True, answers_to: Sequence[str] = ()
    ) -> Thread:
        """Return the conversation of a message, at most the newest `limit` messages.

        Without `body` only headers are required; texts and attachments may be missing.
        `answers_to` are Message-IDs of which every answer is wanted. Then the message itself may be
        gone, and answers that the provider put into another conversation are looked for too.
        """
        ...

    def read_arrivals(self, since: datetime, *, limit: int) -> Thread:
        """Return the mail that arrived since then, oldest first, without texts and attachments.

        It looks in the whole mailbox, or in the inbox if folders can only be searched one by one.
        Not `is_whole` if more than `limit` arrived: these are the oldest.
        """
        ...

    def fetch_attachment(
        self, message_id: str, attachment_id: str, *, limit: int
    ) -> tuple[AttachmentInfo, bytes]:
        """Return the attachment and its decoded bytes.

        Raises NotFound, or Refused("too_large") over `limit` bytes.
        """
        ...

    def id_of_number(self, number: int, *, folder: str) -> str:
        """Return the message id of a UID in a folder (a role). Raises NotFound."""
        ...


class Drafts(Protocol):
    """The part of a provider that changes the drafts folder, and nothing else."""

    def save_draft(self, source: bytes, *, replaces: str | None = None) -> StoredDraft:
        """Put a draft into the drafts folder. The draft that it replaces is removed only after the
        new one is there.

        Raises NotFound if `replaces` is unknown, Refused("not_a_draft") if it is not in
        the drafts folder.
        """
        ...

    def read_draft(self, draft_id: str) -> StoredDraft:
        """Return the draft; raise the same errors as save_draft."""
        ...

    def delete_draft(self, draft_id: str) -> None:
        """Remove this draft and nothing else; raise the same errors as save_draft."""
        ...


class Sender(Protocol):
    """The part of a provider that sends mail, and finishes what belongs to a sent mail."""

    def check(self, envelope: Envelope) -> None:
        """Raise Refused if `send` would refuse the envelope regardless of the server; ask no
        server.

        It is called before the approval, so that nobody approves a mail that cannot be sent.
        """
        ...

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        """Hand the message over once."""
        ...

    def mark(self, message_id: str, flag: Flag) -> None:
        """Mark the original as answered or forwarded; idempotent."""
        ...

    def save_sent_copy(
        self, source: bytes, message_id: str, *, check_lease: Callable[[], None] = always_held
    ) -> int:
        """Put the copy into Sent unless it is there already; return how many were there.

        `check_lease` is called directly before the copy is put there, and raises LeaseLost if
        another process may be doing it.
        """
        ...


class Evidence(Protocol):
    """The part of a provider that finds out whether a mail has left: Sent, and what was prepared."""

    @property
    def can_find_sent(self) -> bool:
        """Return False if the access to the mailbox does not allow `find_sent` to look."""
        ...

    def find_sent(self, message_id: str) -> str | None:
        """Return the Message-ID under which the provider shows the message as sent, or None.

        Some providers give it another one and keep ours in a header of their own. None proves
        nothing.
        """
        ...

    def differs_in_sent(self, message_id: str, envelope: Envelope) -> tuple[str, ...]:
        """Return the names of the differences between the envelope and the message that `find_sent`
        found: recipients, subject, content.

        Empty if nothing differs. Raises ProviderError.
        """
        ...

    def is_unsent(self, prepared: DraftNotes) -> bool:
        """Return True if the preparation is still there, unchanged and unsent.

        False proves nothing.
        """
        ...

    def discard(self, prepared: DraftNotes) -> bool:
        """Remove the preparation if it is still there, unchanged and unsent.

        Return False if it is gone, because then it may have been sent.
        """
        ...

    def destroy(self, prepared: DraftNotes) -> bool:
        """Destroy the preparation permanently, so that no order that names it can be carried out
        any more.

        Return True only if the provider has confirmed that this call destroyed it. Return False if
        the draft is gone, because it may have been sent. Return False if the mailbox owner has
        changed it; such a draft is left alone.
        """
        ...

    def is_prepared(self, prepared: DraftNotes, draft: StoredDraft) -> bool:
        """Return True if the draft is the preparation, or was created for it without a
        confirmation; ask no server.
        """
        ...


class MailProvider(Reader, Drafts, Sender, Evidence, Protocol):
    """One connected mailbox. Safe to use from several threads."""

    name: str
    send_scope: str

    @property
    def always_keeps_copy(self) -> bool:
        """Return True if every sent mail is kept in Sent, so that no mail can be sent without a
        copy.
        """
        ...


class ComposedProvider:
    """A provider made of four parts, each built by its vendor from the same client.

    A call of `MailProvider` goes to the part whose interface has it.
    """

    reader: Reader
    drafts: Drafts
    sender: Sender
    evidence: Evidence

    def __getattr__(self, name: str) -> Any:
        for part, interface in PARTS.items():
            if name in vars(interface):
                return getattr(getattr(self, part), name)
        raise AttributeError(name)


PARTS = {"reader": Reader, "drafts": Drafts, "sender": Sender, "evidence": Evidence}


NOT_A_DRAFT = translatable(
    "You can only update drafts. The email you provided is not in the drafts folder."
)
ROLES = ("inbox", "sent", "drafts", "archive", "junk", "trash")


def role_of(folder: str) -> str | None:
    """Return the role that the caller means, or None if `folder` is the name of a folder.

    `sentitems` is Graph's word for sent.
    """
    wanted = folder.lower()
    return "sent" if wanted == "sentitems" else wanted if wanted in ROLES else None
