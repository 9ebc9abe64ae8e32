"""Several reads in one request. Pure.

https://developers.google.com/workspace/gmail/api/guides/batch
"""

import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import Message
from typing import Any

from accounts.infra.foreign_text import load_json, parse_url
from tools.providers.gmail.answers import Answer, parse_answer

NUMBERED = re.compile(rb"(?im)^Content-ID:[ \t]*<response-([0-9]{1,4})>[ \t]*\r?$")


def write_batch(uris: Sequence[str]) -> tuple[str, bytes]:
    """Return the content type and the body of a batch of GET requests; the token of the batch
    counts for each.
    """
    boundary = f"batch_{secrets.token_hex(12)}"
    parts = []
    for place, uri in enumerate(uris):
        asked = parse_url(uri)
        head = f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <{place}>\r\n\r\n"
        parts.append(
            f"{head}GET {asked.path}?{asked.query} HTTP/1.1\r\nAccept: application/json\r\n\r\n"
        )
    return f'multipart/mixed; boundary="{boundary}"', (
        "".join(parts) + f"--{boundary}--\r\n"
    ).encode("ascii")


def read(content_type: str, content: bytes, *, count: int) -> list[dict[str, Any] | Answer]:
    """Return the answers in the order of the requests; raise ValueError unless all are answered.

    The Content-ID of a part says which request it answers; servers that leave it out answer in
    order.
    """
    found: dict[int, dict[str, Any] | Answer] = {}
    for place, part in enumerate(_parts(content_type, content)):
        head, _, inner = part.replace(b"\r\n", b"\n").partition(b"\n\n")
        named = NUMBERED.search(head)
        found[int(named[1]) if named else place] = _answer(inner)
    if set(found) != set(range(count)):
        raise ValueError("not every question was answered")
    return [found[place] for place in range(count)]


def _parts(content_type: str, content: bytes) -> list[bytes]:
    """Return the parts between the boundaries.

    Python's own parser takes longer for this than the rest of a search takes.
    """
    kind = Message()
    kind["Content-Type"] = content_type
    boundary = kind.get_boundary()
    if not boundary:
        raise ValueError("no batch")
    line = re.compile(
        rb"(?:\A|\r?\n)--" + re.escape(boundary.encode()) + rb"(?:--)?[ \t]*(?=\r?\n|\Z)"
    )
    # The text before the first boundary and after the last one has no use.
    return line.split(content)[1:-1]


def _answer(part: bytes) -> dict[str, Any] | Answer:
    head, _, body = part.partition(b"\n\n")
    first, _, rest = head.partition(b"\n")
    status = int(first.split()[1])
    if status < 300:
        return dict(load_json(body))
    headers = {name.lower(): value for name, value in message_from_bytes(rest + b"\n\n").items()}
    return parse_answer(status, headers, body, now=datetime.now(UTC))
