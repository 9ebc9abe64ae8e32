"""Sent or approved content where the provider writes the bytes: one hash of all parts of the
request.
"""

import hashlib
import json
from collections.abc import Mapping
from email.message import EmailMessage, Message
from typing import Any


def _bytes_of(part: Message) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def content_of(message: EmailMessage) -> str:
    """Return the hash of a message as it was sent."""
    files = [
        (part.get_filename() or "", hashlib.sha256(_bytes_of(part)).hexdigest())
        for part in message.iter_attachments()
    ]
    body = message.get_body(("html", "plain"))
    kind = "" if body is None else body.get_content_subtype()
    text = "" if body is None else str(body.get_content())
    return _hash(str(message["Subject"]), kind, text, files)


def content_of_payload(payload: Mapping[str, Any]) -> str:
    """Return the hash of an approved payload."""
    html = payload.get("html")
    files = [(each["name"], each["sha256"]) for each in payload.get("attachments", ())]
    kind, text = ("plain", payload.get("text", "")) if html is None else ("html", html)
    return _hash(payload.get("subject", ""), kind, text, files)


def _hash(subject: str, kind: str, text: str, files: list[tuple[str, str]]) -> str:
    told = [subject, kind, text.replace("\r\n", "\n").strip("\n"), sorted(files)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()
