"""Messages, accounts, calls and faults of the Gmail server."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage, Message


@dataclass(kw_only=True)
class Stored:
    """A message in a mailbox; `at` is its internal date in milliseconds."""

    id: str
    thread: str
    labels: set[str]
    source: bytes
    at: int

    @property
    def parsed(self) -> Message:
        return message_from_bytes(self.source, policy=policy.compat32)

    def header(self, name: str) -> str:
        return str(self.parsed[name] or "")


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A sent mail: to everybody in `recipients`, as `content`, at `at` (Unix time).

    The id and the content are those of the draft, whatever Message-ID the copies have.
    """

    sender: str
    recipients: tuple[str, ...]
    message_id: str
    content: bytes
    at: float

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(kw_only=True)
class Box:
    """One account."""

    address: str
    messages: dict[str, Stored] = field(default_factory=dict)
    drafts: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call as it came in: `name` is the API's; `inside` is True if it came inside a batch."""

    name: str
    address: str
    arguments: Mapping[str, list[str]]
    id: str = ""
    inside: bool = False
    content: bytes = b""

    def one(self, name: str) -> str:
        return self.arguments.get(name, [""])[0]

    @property
    def draft(self) -> str:
        """Return the id of the draft that is to be sent."""
        return str(json.loads(self.content)["id"])


@dataclass(kw_only=True)
class Fault:
    """A fault of the next `times` calls of a name (None: all): a status, or no answer at all.

    `after`: it strikes after the effect. `pause` comes first; with the status 200 it is the only
    fault.
    """

    name: str
    times: int | None = 1
    status: int = 0
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    after: bool = False
    only: Callable[[Call], bool] = lambda call: True
    pause: Callable[[], object] = lambda: None


class Refusal(Exception):
    def __init__(
        self, status: int, reason: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status)
        self.status, self.reason, self.headers = status, reason, dict(headers or {})

    def body(self) -> bytes:
        told = {
            "message": "canary-reply in words",
            "domain": "global",
            "reason": self.reason or "backendError",
        }
        error = {"code": self.status, "message": told["message"], "errors": [told]}
        return json.dumps({"error": error}).encode()


class Dropped(Exception):
    pass


class NoToken(Refusal):
    """A refusal in the words of the token endpoint (RFC 6749 5.2)."""

    def body(self) -> bytes:
        return json.dumps({"error": self.reason, "error_description": "canary-reply"}).encode()


def parsed(source: bytes) -> EmailMessage:
    return message_from_bytes(source, policy=policy.default)
