"""Reading BODYSTRUCTURE as servers really send it. Pure."""

import base64
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from tools.mail.message import lenient
from tools.mail.text.charsets import codec_of
from tools.mail.text.decoding import text_of, without_controls

PIECE = re.compile(r"[0-9]{1,4}\*?")
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
    content_id: str = ""

    @property
    def is_attachment(self) -> bool:
        return lenient.is_attachment(self.type, self.disposition, self.name)

    @property
    def is_inline(self) -> bool:
        return (
            bool(self.content_id)
            and self.disposition != "attachment"
            and self.type.startswith("image/")
        )


def leaves(structure: Any) -> Iterator[Part]:
    """Yield the leaves of a BODYSTRUCTURE in order; parts nested too deep or over the limit are
    left out.
    """
    return _leaves(structure, "", 0, iter(range(lenient.MOST_DETECTED)))


def _leaves(structure: Any, number: str, depth: int, left: Iterator[int]) -> Iterator[Part]:
    if depth > MAX_DEPTH:
        return
    if structure.is_multipart:
        for index, part in enumerate(structure[0][:MAX_PARTS], start=1):
            inside = f"{number}.{index}" if number else str(index)
            yield from _leaves(part, inside, depth + 1, left)
        return
    if len(structure) < 7:
        return  # a multipart without parts; some servers describe it as a type without a size
    kind = f"{_text(structure[0])}/{_text(structure[1])}".lower()
    parameters = _parameters(structure[2], left)
    # RFC 3501 7.4.2: before the extension data, text has a line count, message/rfc822 an envelope,
    # a body and lines.
    after = 8 if kind.startswith("text/") else 10 if kind == "message/rfc822" else 7
    disposition = structure[after + 1] if len(structure) > after + 1 else None
    named = (
        _parameters(disposition[1], left)
        if isinstance(disposition, tuple) and len(disposition) > 1
        else {}
    )
    yield Part(
        number=number or "1",
        type=kind,
        charset=parameters.get("charset", ""),
        encoding=_text(structure[5]).lower(),
        size=structure[6] if isinstance(structure[6], int) else 0,
        name=lenient.decode_text(named.get("filename") or parameters.get("name") or ""),
        disposition=_text(disposition[0]).lower() if isinstance(disposition, tuple) else "",
        content_id=_text(structure[3]).strip(" <>"),
    )


def charset_of(parts: list[Part]) -> str:
    """Return the charset of the message's text, or an empty string."""
    part = body_part(parts, "plain") or body_part(parts, "html")
    return part.charset if part else ""


def body_part(parts: list[Part], subtype: str) -> Part | None:
    """Return the first part that is shown as the message's text."""
    return next(
        (part for part in parts if part.type == f"text/{subtype}" and not part.is_attachment), None
    )


def part_text(content: bytes, part: Part, *, whole: bool = True) -> str:
    """Return the decoded text of a part; a wrong encoding or charset loses characters, never the
    message.
    """
    return text_of(
        part_bytes(content, part), part.charset, whole=whole, is_page=part.type == "text/html"
    )


def part_bytes(content: bytes, part: Part) -> bytes:
    """Return the bytes of a part without the transfer encoding."""
    match part.encoding:
        case "base64":
            return _base64(content)
        case "quoted-printable":
            return quopri.decodestring(content)
    return content


def _base64(content: bytes) -> bytes:
    """Decode the complete groups: a fetch may end in the middle of a group."""
    clean = re.sub(rb"[^A-Za-z0-9+/]", b"", content)
    return base64.b64decode(clean[: len(clean) // 4 * 4] + _last_group(clean))


def _last_group(clean: bytes) -> bytes:
    rest = clean[len(clean) // 4 * 4 :]
    return rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""


def _text(value: object) -> str:
    return without_controls(value.decode("ascii", "replace")) if isinstance(value, bytes) else ""


def _parameters(value: object, left: Iterator[int]) -> dict[str, str]:
    """Return parameters by name in lower case; values split or encoded by RFC 2231
    (`filename*0*=utf-8''…`) are joined.
    """
    if not isinstance(value, tuple):
        return {}
    items = [item if isinstance(item, bytes) else b"" for item in value]
    found: dict[str, str] = {}
    pieces: dict[str, list[tuple[int, bytes]]] = {}
    charsets: dict[str, str] = {}
    for name, content in zip(items[::2], items[1::2], strict=False):
        base, star, place = _text(name).lower().partition("*")
        if not star:
            found.setdefault(base, lenient.decode_raw(content, left))
            continue
        number = int(place.rstrip("*") or 0) if PIECE.fullmatch(place) else 0
        encoded = place == "" or place.endswith("*")
        if encoded and number == 0 and content.count(b"'") >= 2:
            claimed, _, content = content.split(b"'", 2)
            charsets[base] = _text(claimed)
        pieces.setdefault(base, []).append(
            (number, unquote_to_bytes(content) if encoded else content)
        )
    for base, parts in pieces.items():
        content = b"".join(piece for _, piece in sorted(parts))
        label = charsets.get(base, "")
        found[base] = (
            text_of(content, label) if codec_of(label) else lenient.decode_raw(content, left)
        )
    return found


def snippet(content: bytes, part: Part) -> str:
    """Return the first words of a part of which only the beginning was fetched."""
    return lenient.first_words(part_text(content, part, whole=False), html=part.type == "text/html")
