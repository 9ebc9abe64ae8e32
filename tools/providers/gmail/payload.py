"""A message as the Gmail API returns it: headers, parts, decoded bodies. Pure.

https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages#Message
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import Message as Block
from html import unescape
from typing import Any

from tools.mail.message import lenient
from tools.mail.text.decoding import REPLACED, read_as, text_of, without_controls
from tools.providers.base import READ_LIMIT, AttachmentInfo, Card, Message

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_DEPTH = 50
MAX_PARTS = 1000
LISTED_DEPTH = 12  # how deep a list looks for attachments
_OF_A_PART = "partId,mimeType,filename,headers,body(size,attachmentId)"


def _fields(depth: int) -> str:
    inside = f",parts({_fields(depth - 1)})" if depth else ""
    return _OF_A_PART + inside


# Everything of a message except the contents of its parts.
OUTLINE = f"id,threadId,labelIds,snippet,internalDate,payload({_fields(LISTED_DEPTH)})"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A leaf of a message. `data` is None if Gmail keeps the content under `attachment_id`."""

    id: str
    type: str
    name: str
    charset: str
    disposition: str
    content_id: str
    size: int
    data: bytes | None
    attachment_id: str

    @property
    def is_attachment(self) -> bool:
        return lenient.is_attachment(self.type, self.disposition, self.name)

    def info(self, *, size: int | None = None) -> AttachmentInfo:
        inline = (
            bool(self.content_id)
            and self.disposition != "attachment"
            and self.type.startswith("image/")
        )
        return AttachmentInfo(
            id=self.id,
            name=self.name,
            type=self.type,
            size=self.size if size is None else size,
            inline=inline,
            content_id=self.content_id,
        )


def leaves(payload: Mapping[str, Any], depth: int = 0) -> Iterator[Part]:
    """Yield the leaves in order; an attached message is one leaf.

    Parts that are nested too deep, or beyond the limit of parts, are left out.
    """
    kind = str(payload.get("mimeType", "")).lower()
    if kind.startswith("multipart/"):
        if depth <= MAX_DEPTH:
            for child in payload.get("parts", ())[:MAX_PARTS]:
                yield from leaves(child, depth + 1)
        return
    block = headers(payload)
    body = payload.get("body", {})
    yield Part(
        id=str(payload.get("partId") or "0"),
        type=kind or "text/plain",
        name=lenient.decode_text(payload.get("filename", "")),
        charset=lenient.parameter(block, "charset"),
        disposition=str(block["Content-Disposition"] or "").partition(";")[0].strip().lower(),
        content_id=str(block["Content-ID"] or "").strip(" <>"),
        size=int(body.get("size", 0)),
        data=decode_base64(body["data"]) if "data" in body else None,
        attachment_id=str(body.get("attachmentId", "")),
    )


def headers(payload: Mapping[str, Any]) -> Block:
    """Return the headers of a part in the form that `lenient` reads."""
    block = Block()
    for header in payload.get("headers", ()):
        block[str(header.get("name", ""))] = str(header.get("value", ""))
    return block


def has_lost_letters(block: Block) -> bool:
    """Return True if Gmail replaced letters of a header that a reader sees."""
    return any(REPLACED in str(block[name] or "") for name in ("From", "To", "Cc", "Subject"))


def headers_of_source(raw: str, charset: str) -> Block:
    """Return the headers of a message in its `raw` format."""
    return lenient.headers(decode_base64(raw[: 4 * (lenient.BLOCK_BYTES // 3)]), charset)


def decode_base64(data: str) -> bytes:
    """Decode base64 for URLs, with or without its padding."""
    clean = re.sub(r"[^A-Za-z0-9_-]", "", data.replace("+", "-").replace("/", "_"))
    try:
        return base64.urlsafe_b64decode(clean + "=" * (-len(clean) % 4))
    except (binascii.Error, ValueError):
        return b""


def encode_base64(source: bytes) -> str:
    return base64.urlsafe_b64encode(source).decode()


def text(part: Part, data: bytes) -> str:
    """Return the text of a part. Gmail returns most bodies in UTF-8, even if their header says
    otherwise.
    """
    whole, data = len(data) <= READ_LIMIT, data[:READ_LIMIT]
    # ISO-2022 and UTF-7 are ASCII with escapes: valid UTF-8, but not meant as UTF-8.
    is_utf_8 = not data.isascii() and read_as(data, "utf_8", whole=whole) is not None
    label = "utf-8" if is_utf_8 else part.charset
    return text_of(data, label, whole=whole, is_page=part.type == "text/html")


def body_part(parts: list[Part], subtype: str) -> Part | None:
    return next(
        (part for part in parts if part.type == f"text/{subtype}" and not part.is_attachment), None
    )


def message(
    answer: Mapping[str, Any], block: Block, *, id_: str, text: str | None, html: str | None
) -> Message:
    name, address = lenient.sender(block)
    return Message(
        id=id_,
        from_address=address,
        from_name=name,
        to=_addresses(block, "To"),
        cc=_addresses(block, "Cc"),
        reply_to=_addresses(block, "Reply-To"),
        subject=lenient.decode_text(block["Subject"]),
        date=lenient.date_of(block, arrival_time(answer)),
        message_id=lenient.decode_text(block["Message-ID"]),
        references=lenient.references(block),
        text=text,
        html=html,
        thread_id=str(answer.get("threadId", "")),
        own_mark=lenient.own_mark(block),
        attachments=tuple(
            part.info() for part in leaves(answer.get("payload", {})) if part.is_attachment
        ),
    )


def card(answer: Mapping[str, Any], *, id_: str) -> Card:
    block = headers(answer.get("payload", {}))
    name, address = lenient.sender(block)
    return Card(
        id=id_,
        from_address=address,
        from_name=name,
        to=_addresses(block, "To", most=lenient.ROW_CHARACTERS),
        subject=lenient.decode_text(block["Subject"]),
        date=lenient.date_of(block, arrival_time(answer)),
        snippet=snippet(answer),
        unread="UNREAD" in answer.get("labelIds", ()),
        thread_id=str(answer.get("threadId", "")),
        own_mark=lenient.own_mark(block),
        attachments=sum(part.is_attachment for part in leaves(answer.get("payload", {}))),
    )


def snippet(answer: Mapping[str, Any]) -> str:
    """Return the snippet as plain text: Gmail escapes it for HTML."""
    return " ".join(without_controls(unescape(str(answer.get("snippet", "")))).split())


def arrival_time(answer: Mapping[str, Any]) -> datetime | None:
    try:
        return EPOCH + timedelta(milliseconds=int(answer["internalDate"]))
    except (KeyError, ValueError, OverflowError):
        return None


def _addresses(
    block: Block, header: str, *, most: int = lenient.LIST_CHARACTERS
) -> tuple[str, ...]:
    return tuple(address for _, address in lenient.addresses(block, header, most=most))
