"""What a mailbox provider can do, and what its errors say about the effect.

The contract suite in `tests/contract/` runs on every provider and on the in-memory twin with the
same assertions.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal, Protocol


@dataclass(frozen=True, kw_only=True)
class Card:
    """One row of a list; `number` is its UID and `thread_id` its conversation where there is such a
    thing.

    `own_mark` is what `accounts.people.own_mail` puts on mailhub's own mail, as it stands in the
    header.
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
    cards: tuple[Card, ...]
    next_token: str | None
    hidden: int = 0


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder; `role` is one of ROLES or empty, `id` works wherever a folder is asked for.

    `more_inside`: it holds folders that are not in the list.
    """

    id: str
    name: str
    role: str
    unread: int | None = None
    total: int | None = None
    more_inside: bool = False


# No provider's protocol carries these, and no mail text holds them.
UNSEARCHABLE = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]+")


@dataclass(frozen=True, kw_only=True)
class SearchQuery:
    """What to look for; everything given must hold. `raw` is in the provider's own language.

    Characters that no mail text holds (control characters, halves of a surrogate pair) count as
    spaces: no provider's protocol can carry them. `without_header` and `not_from` leave out mail
    where the protocol can say so.
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
class AttachmentInfo:
    """`inline` is a picture inside the HTML, named there by `content_id` (without brackets)."""

    id: str
    name: str
    type: str
    size: int
    inline: bool = False
    content_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message as it can be read; `text` and `html` are whole parts, decoded, at most
    `READ_LIMIT` bytes of each.
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
    thread_id: str = ""
    own_mark: str = ""


@dataclass(frozen=True, kw_only=True)
class StoredDraft:
    """A draft as the provider holds it: `source` are its bytes, `number` its UID where there is
    such a thing.

    `version` is another one after every change; empty where the bytes themselves are the version.
    """

    id: str
    number: int | None
    source: bytes
    version: str = ""

    @property
    def seal(self) -> str:
        """What changes when the draft does."""
        return self.version or hashlib.sha256(self.source).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """What is handed over: the sender, everybody who gets it, and the bytes exactly as they leave.

    The rest is for providers that take no bytes, or not for everything: what sort of mail it is,
    the id of the original, whether all of its recipients are answered, and the words alone that
    were written above the quote.
    """

    sender: str
    recipients: tuple[str, ...]
    source: bytes
    kind: Literal["send", "reply", "forward"] = "send"
    original: str = ""
    reply_all: bool = False
    comment: str = ""
    save_to_sent: bool = True


def _keep_nothing(notes: Mapping[str, Any]) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Handover:
    """One try to hand a message over.

    `wire_started()` is called directly before the step after which it may have gone out; what fails
    before is NotSent, what gets no answer after is OutcomeUnknown. `prepared` is what an earlier
    try has left at the provider, such as the id of a draft; `keep(notes)` commits it for the next
    one, and for looking whether the message is still there.
    """

    wire_started: Callable[[], None]
    prepared: Mapping[str, Any] = field(default_factory=dict)
    keep: Callable[[Mapping[str, Any]], None] = _keep_nothing


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What the provider said when it took the message; `reference` holds no address.

    `changed` names what differs from the approved message, if somebody else has sent what was
    prepared.
    """

    at: datetime
    reference: str = ""
    changed: tuple[str, ...] = ()


class MailProvider(Protocol):
    """One connected mailbox. Safe to use from several threads."""

    name: str
    send_scope: str

    @property
    def writes_quote(self) -> bool:
        """Whether the provider writes the quote of answers and forwards itself and can only be told
        the comment.
        """
        ...

    @property
    def always_keeps_copy(self) -> bool:
        """Whether everything it sends lies in Sent, so that a mail without a copy cannot be had."""
        ...

    def test(self) -> None:
        """Sign in to all its services; raises ProviderError."""
        ...

    def list_messages(
        self, *, folder: str, unread: bool | None, limit: int, page_token: str | None
    ) -> Page:
        """Newest first. `folder` is a role (inbox, sent, drafts, …) or a name.

        Raises Refused("not_found").
        """
        ...

    def list_folders(self) -> tuple[Folder, ...]: ...

    def search(self, query: SearchQuery, *, limit: int, page_token: str | None) -> Page:
        """Newest first.

        Raises Refused("invalid_query") for a query the provider does not understand.
        """
        ...

    def read_message(self, message_id: str, *, body: bool) -> Message:
        """Raises Refused("not_found") for an unknown, malformed or foreign id."""
        ...

    def read_thread(self, message_id: str, *, limit: int, body: bool = True) -> tuple[Message, ...]:
        """The conversation that a message belongs to, oldest first, at most the newest `limit`;
        without `body` who wrote them and when, and neither texts nor attachments need be there.
        """
        ...

    def fetch_attachment(
        self, message_id: str, attachment_id: str, *, limit: int
    ) -> tuple[AttachmentInfo, bytes]:
        """The decoded bytes.

        Raises Refused("not_found"), or Refused("too_large") over `limit` bytes.
        """
        ...

    def save_draft(self, source: bytes, *, replaces: str | None = None) -> StoredDraft:
        """Put a draft into the drafts folder; the one it replaces goes only after the new one is
        there.

        Raises Refused("not_found") when `replaces` is unknown, Refused("not_a_draft") when it lies
        elsewhere.
        """
        ...

    def read_draft(self, draft_id: str) -> StoredDraft:
        """Raises like save_draft."""
        ...

    def delete_draft(self, draft_id: str) -> None:
        """Remove this draft and nothing else; raises like save_draft."""
        ...

    def id_of_number(self, number: int, *, folder: str) -> str:
        """The message id of a UID in a folder (a role). Raises Refused("not_found")."""
        ...

    def mark(self, message_id: str, flag: Literal["answered", "forwarded"]) -> None:
        """Note on the original what was done with it; idempotent."""
        ...

    def check(self, envelope: Envelope) -> None:
        """Raises Refused for what `send` would refuse whatever its server says; asks nobody.

        It is called before a person decides: nobody shall approve what cannot be sent.
        """
        ...

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        """Hand the message over, once."""
        ...

    def find_sent(self, message_id: str) -> str | None:
        """The Message-ID under which the provider itself shows the message as sent; some give it
        another and keep ours in a header of their own. None proves nothing.
        """
        ...

    def differs_in_sent(self, message_id: str, envelope: Envelope) -> tuple[str, ...]:
        """Name in what the message that `find_sent` has found is not the envelope: recipients,
        subject, content.

        Empty when nothing differs, or when nobody but mailhub can have chosen what was sent. Raises
        ProviderError.
        """
        ...

    def is_unsent(self, prepared: Mapping[str, Any]) -> bool:
        """Whether what was prepared still lies there, untouched and unsent.

        False proves nothing.
        """
        ...

    def discard(self, prepared: Mapping[str, Any]) -> None:
        """Take away what was prepared, if it is still there, unchanged and unsent; idempotent."""
        ...

    def destroy(self, prepared: Mapping[str, Any]) -> bool:
        """Destroy what was prepared for good, so that no order that names it can be carried out any
        more.

        True only when the provider has confirmed that this call did it. A draft that is gone may
        have been sent, and one that its person has changed is left alone: False.
        """
        ...

    def is_prepared(self, prepared: Mapping[str, Any], draft: StoredDraft) -> bool:
        """Whether the draft is what was prepared, or was made for it without a confirmation; asks
        nobody.
        """
        ...

    def save_sent_copy(self, source: bytes, message_id: str) -> None:
        """Put the copy into Sent unless one is there already."""
        ...


NOT_A_DRAFT = "You can only update drafts. The email you provided is not in the drafts folder."
READ_LIMIT = 1024 * 1024
ROLES = ("inbox", "sent", "drafts", "archive", "junk", "trash")


def role_of(folder: str) -> str | None:
    """The role a caller means, or None when it is a folder's own name.

    `sentitems` is Graph's word for sent.
    """
    wanted = folder.lower()
    return "sent" if wanted == "sentitems" else wanted if wanted in ROLES else None
