"""Mails, faults, calls and errors of the Graph server."""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

ALL = ("Mail.Read", "Mail.ReadWrite", "Mail.Send", "User.Read")
SECONDS = 10
SENDING = ("sendMail", "send")
ON_DRAFTS = (
    "createReply", "createReplyAll", "createForward", "createUploadSession", "attachments", "permanentDelete",
)  # fmt: skip
REQUEST_LIMIT = 4 * 1024 * 1024
Phase = Literal[
    "drop_before",
    "drop_after",
    "drop_after_effect",
    "answer",
    "answer_after_effect",
    "late",
    "late_done",
]


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """One sent mail, recorded independently of the answer to the client."""

    sender: str
    recipients: tuple[str, ...]
    message_id: str
    subject: str
    endpoint: str
    source: bytes
    saved: bool
    marker: str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source).hexdigest()


@dataclass(frozen=True)
class Held:
    """A call that waits in the server until the test releases it."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        assert self.reached.wait(SECONDS * 6)

    def release(self) -> None:
        self.released.set()

    def here(self) -> None:
        self.reached.set()
        self.released.wait(SECONDS * 6)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault by its phase: `drop_*` cut the connection before the request was read, after it, or
    after its effect.

    `answer*` returns `status` instead of, or after, the effect. `late*` answers correctly, after a
    pause before or after its effect. The others may also pause where they strike, except for the
    one before the request was read.
    """

    phase: Phase
    status: int = 503
    code: str = "ErrorInternalServerError"
    headers: tuple[tuple[str, str], ...] = ()
    pause: Callable[[], object] = lambda: None
    ended: Callable[[], object] = lambda: None  # called after the effect of a late call


@dataclass(frozen=True, kw_only=True)
class Hit:
    method: str
    path: str
    query: dict[str, str]
    body: Any
    action: str
    prefer: str


class Refusal(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class Cut(Exception):
    """The end of the connection."""


def error_body(code: str) -> dict[str, Any]:
    """Return an error in Graph's form; no code may branch on its text or show it."""
    return {
        "error": {
            "code": code,
            "message": f"PROVIDER TEXT {code}",
            "innerError": {"request-id": "0"},
        }
    }
