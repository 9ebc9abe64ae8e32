"""A message as the Gmail API returns it: headers, parts, decoded bodies. Pure.

https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages#Message
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.message import Message as Block
from html import unescape
from typing import Any

from accounts.infra.foreign_text import parse_number
from tools.mail.message import lenient
from tools.mail.message.mime import Tree
from tools.mail.message.parameters import first_word, parameters
from tools.mail.message.parts import MAX_DEPTH, MAX_PARTS, Part
from tools.mail.message.reading import count_files
from tools.mail.text.decoding import REPLACED, without_controls
from tools.providers.base import Card

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LISTED_DEPTH = 12  # how deep a list looks for attachments
_OF_A_PART = "partId,mimeType,filename,headers,body(size,attachmentId)"


def _fields(depth: int) -> str:
    inside = f",parts({_fields(depth - 1)})" if depth else ""
    return _OF_A_PART + inside


# The fields beside the content.
HEAD = "id,threadId,labelIds,snippet,internalDate,sizeEstimate"
# Everything of a message except the contents of its parts.
OUTLINE = f"{HEAD},payload({_fields(LISTED_DEPTH)})"


Fetch = Callable[[str], bytes]  # of Gmail's id of an attachment


def tree_of(payload: Mapping[str, Any], fetch: Fetch = lambda _: b"") -> Tree:
    """Return a message as parts; a content that Gmail keeps apart is fetched when it is loaded."""
    reader = _Reader(fetch)
    root = reader.part(payload, "", 0) or Part(number="1", type="multipart/mixed")
    return Tree(root=root, block=headers(payload), left_out=reader.left_out)


class _Reader:
    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._left: Iterator[int] = iter(range(lenient.MOST_DETECTED))
        self._parts = MAX_PARTS
        self.left_out = False

    def part(self, payload: Mapping[str, Any], number: str, depth: int) -> Part | None:
        if depth > MAX_DEPTH or self._parts <= 0:
            self.left_out = True
            return None
        self._parts -= 1
        block = headers(payload)
        kind = str(payload.get("mimeType", "")).lower()
        named = parameters(_raw(block, "Content-Type"), self._left)
        if not kind.startswith("multipart/"):
            return self._leaf(payload, block, named, number=number or "1", kind=kind)
        children = (
            self.part(child, f"{number}.{place}" if number else str(place), depth + 1)
            for place, child in enumerate(payload.get("parts", ()), start=1)
        )
        found = tuple(child for child in children if child is not None)
        return Part(number=number, type=kind, parameters=named, children=found)

    def _leaf(
        self,
        payload: Mapping[str, Any],
        block: Block,
        named: dict[str, str],
        *,
        number: str,
        kind: str,
    ) -> Part:
        body = payload.get("body", {})
        disposed = _raw(block, "Content-Disposition")
        file = parameters(disposed, self._left)
        name = payload.get("filename") or file.get("filename") or named.get("name") or ""
        return Part(
            number=number,
            type=kind or "text/plain",
            parameters=named,
            disposition=first_word(disposed),
            name=lenient.decode_text(name),
            content_id=str(block["Content-ID"] or "").strip(" <>"),
            size=int(body.get("size", 0)),
            load=self._loader(body),
            is_recoded=True,
        )

    def _loader(self, body: Mapping[str, Any]) -> Callable[[int | None], bytes]:
        def load(limit: int | None) -> bytes:
            if "data" not in body and body.get("attachmentId"):
                return self._fetch(str(body["attachmentId"]))[:limit]
            return decode_base64(str(body.get("data", "")))[:limit]

        return load


def number_of(part_id: str) -> str:
    """Return the IMAP section of a part: Gmail counts from 0."""
    places = [parse_number(place, digits=5) for place in part_id.split(".")]
    if None in places:
        return ""
    return ".".join(str(place + 1) for place in places if place is not None)


def part_id_of(number: str) -> str:
    """Return Gmail's id of a part."""
    return ".".join(str(int(place) - 1) for place in number.split("."))


def _raw(block: Block, name: str) -> bytes:
    return str(block[name] or "").encode("utf-8", "surrogateescape")


def headers(payload: Mapping[str, Any]) -> Block:
    """Return the headers of a part in the form that `lenient` reads."""
    block = Block()
    for header in payload.get("headers", ()):
        block[str(header.get("name", ""))] = str(header.get("value", ""))
    return block


def has_lost_letters(block: Block) -> bool:
    """Return True if Gmail replaced letters of a header that a reader sees."""
    return any(REPLACED in str(block[name] or "") for name in ("From", "To", "Cc", "Subject"))


def decode_base64(data: str) -> bytes:
    """Decode base64 for URLs, with or without its padding."""
    clean = re.sub(r"[^A-Za-z0-9_-]", "", data.replace("+", "-").replace("/", "_"))
    try:
        return base64.urlsafe_b64decode(clean + "=" * (-len(clean) % 4))
    except (binascii.Error, ValueError):
        return b""


def encode_base64(source: bytes) -> str:
    return base64.urlsafe_b64encode(source).decode()


def card(answer: Mapping[str, Any], *, id_: str, block: Block | None = None) -> Card:
    """Return the row of a list; `block` holds the headers if the answer has damaged ones."""
    tree = tree_of(answer.get("payload", {}))
    block = tree.block if block is None else block
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
        attachments=count_files(tree.root),
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
