"""Reading BODYSTRUCTURE and headers as servers really send them. Pure."""

import base64
import binascii
import quopri
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email import message_from_bytes, policy
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from html import unescape
from typing import Any

CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
# Only for the few words of a list row: what is shown of a message goes through a real parser.
TAG = re.compile(r"(?s)<(style|script|head)\b.*?(</\1>|$)|<!--.*?(-->|$)|<[^>]*(>|$)", re.IGNORECASE)
MAX_DEPTH = 50
MAX_PARTS = 1000


@dataclass(frozen=True, kw_only=True)
class Part:
    """A leaf of a message; `number` is its IMAP section."""

    number: str
    type: str
    charset: str
    encoding: str
    size: int
    name: str
    disposition: str

    @property
    def is_attachment(self) -> bool:
        return self.disposition == "attachment" or (not self.type.startswith("text/") and bool(self.name))


def leaves(structure: Any, number: str = "", depth: int = 0) -> Iterator[Part]:
    """The leaves of a BODYSTRUCTURE in order; a mail nested too deep or in too many parts is cut off."""
    if depth > MAX_DEPTH:
        return
    if structure.is_multipart:
        for index, part in enumerate(structure[0][:MAX_PARTS], start=1):
            yield from leaves(part, f"{number}.{index}" if number else str(index), depth + 1)
        return
    kind = f"{_text(structure[0])}/{_text(structure[1])}".lower()
    parameters = _pairs(structure[2])
    # RFC 3501 7.4.2: text has a line count before the extension data, message/rfc822 an envelope, a body and lines.
    after = 8 if kind.startswith("text/") else 10 if kind == "message/rfc822" else 7
    disposition = structure[after + 1] if len(structure) > after + 1 else None
    named = _pairs(disposition[1]) if isinstance(disposition, tuple) and len(disposition) > 1 else {}
    yield Part(
        number=number or "1",
        type=kind,
        charset=parameters.get("charset", ""),
        encoding=_text(structure[5]).lower(),
        size=structure[6] if isinstance(structure[6], int) else 0,
        name=decoded(named.get("filename") or parameters.get("name") or ""),
        disposition=_text(disposition[0]).lower() if isinstance(disposition, tuple) else "",
    )


def body_part(parts: list[Part], subtype: str) -> Part | None:
    """The first part that is read as the message's text."""
    return next((part for part in parts if part.type == f"text/{subtype}" and part.disposition != "attachment"), None)


def part_text(content: bytes, part: Part) -> str:
    """The decoded text of a part; a wrong encoding or character set costs characters, never the message."""
    match part.encoding:
        case "base64":
            content = _base64(content)
        case "quoted-printable":
            content = quopri.decodestring(content)
    for charset in (part.charset, "utf-8", "windows-1252"):
        try:
            return content.decode(charset or "utf-8").replace("\r\n", "\n")
        except (LookupError, UnicodeDecodeError):
            continue
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


def headers(block: bytes) -> Message:
    """A header block, parsed leniently; values are raw and go through the functions below."""
    return message_from_bytes(block, policy=policy.compat32)


def decoded(value: object) -> str:
    """A header's text for reading: encoded words decoded, control and line characters gone."""
    text = _raw(value)
    with suppress(
        HeaderParseError, LookupError, UnicodeError, ValueError, binascii.Error
    ):  # what cannot be decoded is shown as it stands
        text = str(make_header(decode_header(text)))
    return CONTROL.sub(" ", text).strip()


def addresses(block: Message, header: str) -> tuple[tuple[str, str], ...]:
    """(name, address) of each entry; for showing, never for deciding where mail goes."""
    values = [_raw(value) for value in block.get_all(header, [])]
    return tuple((decoded(name), CONTROL.sub("", address)) for name, address in getaddresses(values) if address)


def date_of(block: Message, arrived: datetime | None) -> datetime | None:
    """What the Date header says, else when it arrived."""
    try:
        claimed = parsedate_to_datetime(_raw(block["Date"]))
    except (TypeError, ValueError, IndexError):
        return arrived
    return claimed if claimed.tzinfo else arrived


def _raw(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    # compat32 hands out Header objects for raw 8-bit values
    return "" if value is None else str(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _base64(content: bytes) -> bytes:
    """Decode what is there: a fetch may end in the middle of a group."""
    clean = re.sub(rb"[^A-Za-z0-9+/]", b"", content)
    return base64.b64decode(clean[: len(clean) // 4 * 4] + _last_group(clean))


def _last_group(clean: bytes) -> bytes:
    rest = clean[len(clean) // 4 * 4 :]
    return rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""


def _text(value: object) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else ""


def _pairs(value: object) -> dict[str, str]:
    if not isinstance(value, tuple):
        return {}
    items = [v.decode("utf-8", "replace") if isinstance(v, bytes) else "" for v in value]
    return {name.lower(): text for name, text in zip(items[::2], items[1::2], strict=False)}


def snippet(content: bytes, part: Part) -> str:
    """The first words of a part of which only the beginning was fetched."""
    text = part_text(content, part)
    if part.type == "text/html":
        text = TAG.sub(" ", text)
    return " ".join(unescape(text).split())[:200]
