"""Several reads in one request (https://developers.google.com/workspace/gmail/api/guides/batch). Pure."""

import json
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from email import message_from_bytes, policy
from typing import Any
from urllib.parse import urlsplit

from tools.providers.gmail.answers import Answer, parsed

NUMBERED = re.compile(r"<response-([0-9]{1,4})>")


def written(uris: Sequence[str]) -> tuple[str, bytes]:
    """The content type and the body of a batch that gets all of them; the token of the whole counts for each."""
    boundary = f"batch_{secrets.token_hex(12)}"
    parts = []
    for place, uri in enumerate(uris):
        asked = urlsplit(uri)
        head = f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <{place}>\r\n\r\n"
        parts.append(f"{head}GET {asked.path}?{asked.query} HTTP/1.1\r\nAccept: application/json\r\n\r\n")
    return f'multipart/mixed; boundary="{boundary}"', ("".join(parts) + f"--{boundary}--\r\n").encode("ascii")


def read(content_type: str, content: bytes, *, count: int) -> list[dict[str, Any] | Answer]:
    """The answers in the order of the questions; ValueError for what is no answer to all of them.

    A part says by its Content-ID which one it answers; servers that leave it out answer in order.
    """
    whole = message_from_bytes(f"content-type: {content_type}\r\n\r\n".encode() + content, policy=policy.HTTP)
    found: dict[int, dict[str, Any] | Answer] = {}
    for place, part in enumerate(whole.iter_parts() if whole.is_multipart() else ()):
        named = NUMBERED.fullmatch(str(part["Content-ID"] or "").strip())
        found[int(named[1]) if named else place] = _answer(part.get_payload(decode=True))
    if set(found) != set(range(count)):
        raise ValueError("not every question was answered")
    return [found[place] for place in range(count)]


def _answer(part: Any) -> dict[str, Any] | Answer:
    head, _, body = bytes(part).replace(b"\r\n", b"\n").partition(b"\n\n")
    first, _, rest = head.partition(b"\n")
    status = int(first.split()[1])
    if status < 300:
        return dict(json.loads(body))
    headers = {name.lower(): value for name, value in message_from_bytes(rest + b"\n\n").items()}
    return parsed(status, headers, body, now=datetime.now(UTC))
