"""What a mailbox provider can do, and what its errors say about the effect.

The contract suite in `tests/contract/` runs on every provider and on the in-memory twin with the same assertions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class ProviderError(Exception):
    """Something went wrong at the provider. The class says what is known about the effect; `code` goes to people."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


class NotSent(ProviderError):
    """The provider certainly did nothing."""


class Unavailable(NotSent):
    """Not reachable or not now; `retry_after` in seconds when the provider said so."""

    def __init__(self, code: str, detail: str = "", *, retry_after: int | None = None) -> None:
        super().__init__(code, detail)
        self.retry_after = retry_after


class Refused(NotSent):
    """A definite no: unknown message, invalid recipient, too large, policy."""


class NotAuthorized(NotSent):
    """The mailbox must be reconnected, or lacks a permission."""


class OutcomeUnknown(ProviderError):
    """The request left us and no verdict came."""


class Unsupported(NotSent):
    """This provider cannot express that; it is refused, never dropped in silence."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """One row of a list."""

    id: str
    from_address: str
    from_name: str
    subject: str
    date: datetime | None
    snippet: str
    unread: bool
    attachments: int


@dataclass(frozen=True, kw_only=True)
class Page:
    cards: tuple[Card, ...]
    next_token: str | None


@dataclass(frozen=True, kw_only=True)
class AttachmentInfo:
    id: str
    name: str
    type: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message as it can be read; `text` and `html` are whole parts, decoded, at most `READ_LIMIT` bytes of each."""

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


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """What is handed over: the sender, everybody who gets it, and the bytes exactly as they leave."""

    sender: str
    recipients: tuple[str, ...]
    source: bytes


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What the provider said when it took the message; `reference` holds no address."""

    at: datetime
    reference: str = ""


class MailProvider(Protocol):
    """One connected mailbox. Safe to use from several threads."""

    name: str
    send_scope: str

    def test(self) -> None:
        """Sign in to all its services; raises ProviderError."""
        ...

    def list_messages(self, *, folder: str, unread: bool | None, limit: int, page_token: str | None) -> Page:
        """Newest first. `folder` is a role (inbox, sent, drafts, …) or a name. Raises Refused("not_found")."""
        ...

    def read_message(self, message_id: str, *, body: bool) -> Message:
        """Raises Refused("not_found") for an unknown, malformed or foreign id."""
        ...

    def send(self, envelope: Envelope, *, wire_started: Callable[[], None]) -> Receipt:
        """Hand the message over once. `wire_started` is called directly before the step after which it may have gone
        out; what fails before is NotSent, what gets no answer after is OutcomeUnknown."""
        ...

    def was_sent(self, message_id: str) -> bool:
        """Whether the provider itself shows the message as sent. False proves nothing."""
        ...

    def save_sent_copy(self, source: bytes, message_id: str) -> None:
        """Put the copy into Sent unless one is there already."""
        ...


READ_LIMIT = 1024 * 1024
ROLES = ("inbox", "sent", "drafts", "archive", "junk", "trash")


def role_of(folder: str) -> str | None:
    """The role a caller means, or None when it is a folder's own name. `sentitems` is Graph's word for sent."""
    wanted = folder.lower()
    return "sent" if wanted == "sentitems" else wanted if wanted in ROLES else None
