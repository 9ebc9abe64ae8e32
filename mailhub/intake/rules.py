"""The size limits of bodies at each address, the senders of large ones, and forms with files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from django.utils.http import parse_header_parameters

from accounts.access.room import MEGABYTE, Room
from accounts.infra.foreign_text import parse_number
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from tools.catalog.entries import TOOLS

KILOBYTE = 1024
ANONYMOUS_BYTES = 64 * KILOBYTE  # the sign-in form, and all other bodies of unknown senders
FORM_BYTES = MEGABYTE  # the forms of a signed-in person
TOOL_BYTES = MEGABYTE  # 100,000 characters of text, escaped
MAIL_BYTES = 32 * MEGABYTE  # attachments in base64, or files in a form
UPLOAD_BYTES = 5 * MEGABYTE  # a file of 4 MB and its form; the view checks the exact limit
OTHER_API_BYTES = 64 * KILOBYTE
# Of one header. Older Pythons take quadratic time for the quotes of a cookie or a Content-Type: 3.6
# seconds for 62 KB.
HEADER_BYTES = 8 * KILOBYTE

Admits = Literal["token", "token or person", "person", "itself"]
GRACE_SECONDS = 10.0
BYTES_PER_SECOND = 32 * 1024
PIECE = 64 * 1024
# After a refusal the rest is read and dropped for this time, so that a client that is still sending
# gets the answer.
LINGER_SECONDS = 1.0
LINGER_SILENCE_SECONDS = 0.05
LINGER_BYTES = 4 * 1024 * 1024
HELD = 128 * MEGABYTE
# A person has room for one largest body, or some that are smaller.
BODIES = Room(most=HELD, of_person=HELD // 4)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The limits of one address.

    `admits` says who may send more than `anonymous` bytes; with "itself" the application asks for
    the caller.
    """

    admits: Admits
    known: int
    anonymous: int = 0
    multipart: bool = False


PAGE = Rule(admits="person", known=FORM_BYTES, anonymous=ANONYMOUS_BYTES)
MAIL_FORM = Rule(admits="person", known=MAIL_BYTES, anonymous=ANONYMOUS_BYTES, multipart=True)
OTHER_API = Rule(admits="token", known=OTHER_API_BYTES)
UPLOAD = Rule(admits="token", known=UPLOAD_BYTES, multipart=True)
CHAT = Rule(admits="token or person", known=FORM_BYTES)
MCP = Rule(admits="itself", known=MAIL_BYTES)
_TOOL = re.compile(r"/api/v1/tools/(\w+)")
_MAIL_FORM = re.compile(r"/compose/|/actions/[0-9a-f-]{36}/edit/")


def rule_for(path: str) -> Rule:
    """Return the rule of an address; an unknown one has the smallest."""
    if path.startswith("/api/"):
        if path == "/api/v1/attachments":
            return UPLOAD
        tool = _TOOL.fullmatch(path)
        return _rule_of_tool(tool[1]) if tool else OTHER_API
    if path.rstrip("/") == "/mcp":
        return MCP
    if path in ("/ai/agent/stream", "/ai/stream"):
        return CHAT
    return MAIL_FORM if _MAIL_FORM.fullmatch(path) else PAGE


def _rule_of_tool(name: str) -> Rule:
    if name not in TOOLS:
        return OTHER_API
    has_files = "attachments" in TOOLS[name].parameters.model_fields
    return Rule(admits="token", known=MAIL_BYTES if has_files else TOOL_BYTES)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The headers of a request.

    `length` is the announced size of the body, None if it comes in chunks.
    """

    path: str
    headers: Mapping[str, str]
    length: int | None

    @classmethod
    def of(cls, path: str, headers: Mapping[str, str]) -> "Asked":
        """Read the headers; raise Problem 400 for those that Django cannot read, or not quickly."""
        if any(len(value) > HEADER_BYTES for value in headers.values()):
            raise Problem("invalid_input", "A header of the request is too long.", status=400)
        try:
            parse_header_parameters(headers.get("Content-Type", ""))
        except ValueError:
            raise Problem("invalid_input", "The Content-Type cannot be read.", status=400) from None
        if headers.get("Transfer-Encoding"):
            return cls(path=path, headers=headers, length=None)
        length = parse_number(headers.get("Content-Length") or "0")
        if length is None:
            raise Problem("invalid_input", "Content-Length is not a number.", status=400)
        return cls(path=path, headers=headers, length=length)

    @property
    def has_body(self) -> bool:
        return self.length != 0

    @property
    def origin(self) -> str:
        """Return the origin of the script that sends the request, or an empty text."""
        return self.headers.get("Origin", "")

    @property
    def is_multipart(self) -> bool:
        return self.headers.get("Content-Type", "").lstrip().lower().startswith("multipart/")


def too_large(limit: int) -> Problem:
    """Return the problem of a body over the limit."""
    return Problem(
        "too_large",
        translatable(
            "The body of a request to this address has at most %(limit)s bytes.", limit=f"{limit:,}"
        ),
    )


def too_slow() -> Problem:
    """Return the problem of a body that did not arrive in time."""
    return Problem("invalid_input", "The body of the request arrived too slowly.", status=408)


def seconds_for(received: int) -> float:
    """Return after how many seconds a body is too slow if `received` bytes have arrived."""
    return GRACE_SECONDS + received / BYTES_PER_SECOND
