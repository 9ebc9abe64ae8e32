"""Messages as the Gmail API shows, searches and takes them."""

import base64
import html
import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from email import message_from_bytes, policy
from email.message import Message
from typing import Any, cast

from tests.support.servers.gmail_data import Box, Call, Stored

ID = re.compile(r"<[^<>\s]+>")
# A message without parts: the number of the first part is 0.
WHOLE = "whole"
GROUP = re.compile(r"\{([^{}]*)\}")  # any of its terms
TERM = re.compile(r'(-?)(?:(\w+):)?("[^"]*"|[^\s"]+)')


def belongs_to_thread(source: bytes, box: Box, thread: str) -> bool:
    """Return True if a draft belongs to the named conversation.

    Only a threadId brings it there, and only with References and In-Reply-To to one of its messages
    and with the same subject, answered or not.

    https://developers.google.com/workspace/gmail/api/guides/threads
    """
    there = [stored for stored in box.messages.values() if stored.thread == thread]
    if not there:
        return True  # the draft's own
    told = message_from_bytes(source, policy=policy.compat32)
    ids = {stored.header("Message-ID").strip() for stored in there}
    named = (
        ids & set(ID.findall(str(told["References"]))) & set(ID.findall(str(told["In-Reply-To"])))
    )
    return bool(named) and topic_of(told) in {topic_of(stored.parsed) for stored in there}


def topic_of(parsed: Message) -> str:
    return re.sub(r"(?i)^(re:\s*)+", "", " ".join(_readable(parsed, "subject").split()))


def show_message(stored: Stored, call: Call) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": stored.id,
        "threadId": stored.thread,
        "labelIds": sorted(stored.labels),
        "internalDate": str(stored.at),
    }
    form = call.one("format") or "full"
    if form == "minimal":
        return shown
    shown |= {"snippet": _snippet(stored.parsed), "sizeEstimate": len(stored.source)}
    if form == "raw":
        return shown | {"raw": base64.urlsafe_b64encode(stored.source).decode()}
    wanted = {name.lower() for name in call.arguments.get("metadataHeaders", ())}
    if form == "metadata":
        headers = [h for h in _headers(stored.parsed) if not wanted or h["name"].lower() in wanted]
        return shown | {
            "payload": {"mimeType": stored.parsed.get_content_type(), "headers": headers}
        }
    return shown | {"payload": _payload(stored.parsed, "")}


def _payload(part: Message, number: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "partId": number,
        "mimeType": part.get_content_type(),
        "filename": part.get_filename() or "",
        "headers": _headers(part),
        "body": {"size": 0},
    }
    if part.get_content_maintype() == "multipart":
        shown["parts"] = [
            _payload(child, _inner(number, place)) for place, child in enumerate(_inside(part))
        ]
        return shown
    content = bytes_of(part)
    shown["body"] = {"size": len(content)}
    if part.get_content_maintype() == "text" and not shown["filename"] and len(content) < 20_000:
        shown["body"]["data"] = base64.urlsafe_b64encode(content).decode()
    elif content:
        shown["body"]["attachmentId"] = (
            f"{number or WHOLE}-{secrets.token_hex(20)}"  # a different one every time
        )
    if part.get_content_type() == "message/rfc822":
        shown["parts"] = [_payload(child, _inner(number, 0)) for child in _inside(part)]
    return shown


def _inside(part: Message) -> list[Message]:
    return cast(list[Message], part.get_payload()) if part.is_multipart() else []


def number_parts(part: Message, number: str = "") -> Iterator[tuple[str, Message]]:
    yield number or WHOLE, part
    if part.get_content_maintype() == "multipart":
        for place, child in enumerate(_inside(part)):
            yield from number_parts(child, _inner(number, place))


def _inner(number: str, place: int) -> str:
    return f"{number}.{place}" if number else str(place)


def bytes_of(part: Message) -> bytes:
    if part.get_content_type() == "message/rfc822":
        return b"".join(child.as_bytes() for child in _inside(part))
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _headers(part: Message) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "value": re.sub(r"\r?\n[ \t]+", " ", str(value))
            .encode("utf-8", "surrogateescape")
            .decode("utf-8", "replace"),
        }
        for name, value in part.raw_items()
    ]


def _snippet(parsed: Message) -> str:
    """Return the first words, escaped for HTML as Gmail does."""
    for kind in ("text/plain", "text/html"):
        for _, part in number_parts(parsed):
            if part.get_content_type() == kind and not part.get_filename():
                text = bytes_of(part).decode("utf-8", "replace")
                if kind == "text/html":
                    text = html.unescape(re.sub(r"(?s)<style.*?</style>|<[^>]*>", " ", text))
                return html.escape(" ".join(text.split())[:200])
    return ""


def matches_query(stored: Stored, query: str, box: Box) -> bool:
    parsed = stored.parsed
    everything = (
        "\n".join(part.get("value", "") for part in _headers(parsed)).lower()
        + html.unescape(_snippet(parsed)).lower()
    )
    for group in GROUP.findall(query):
        if not any(matches_query(stored, term, box) for term in group.split()):
            return False
    query = GROUP.sub("", query)
    own = {name.lower().replace(" ", "-"): id_ for id_, name in box.labels.items()}
    for minus, key, raw in TERM.findall(query):
        value = raw.strip('"')
        match key:
            case "from" | "to" | "subject":
                holds = value.lower() in _readable(parsed, key).lower()
            case "label" | "in":
                holds = (
                    value == "anywhere" or own.get(value.lower(), value.upper()) in stored.labels
                )
            case "newer_than":
                holds = stored.at >= (time.time() - int(value.rstrip("d")) * 86400) * 1000
            case "after":
                holds = stored.at > int(value) * 1000
            case "before":
                holds = stored.at < int(value) * 1000
            case "has":
                holds = any(part.get_filename() for _, part in number_parts(parsed))
            case "is":
                holds = ("UNREAD" in stored.labels) is (value == "unread")
            case "rfc822msgid":
                holds = stored.header("Message-ID").strip() == f"<{value}>"
            case _:
                holds = value.lower() in everything
        if holds is bool(minus):
            return False
    return True


def _readable(parsed: Message, name: str) -> str:
    value = next((h["value"] for h in _headers(parsed) if h["name"].lower() == name), "")
    read = message_from_bytes(f"Subject: {value}\r\n\r\n".encode(), policy=policy.default)
    return str(read["Subject"])


def read_upload(call: Call, headers: Mapping[str, str]) -> tuple[dict[str, Any], bytes]:
    """Return the fields beside the message, and the message: from the JSON or the second part of an
    upload.
    """
    if "uploadType" not in call.arguments:
        given = json.loads(call.content)
        return given, _decoded(given.get("raw") or given.get("message", {}).get("raw", ""))
    boundary = re.search(r'boundary="([^"]+)"', headers["content-type"])
    assert boundary is not None
    _, beside, media, _ = call.content.split(b"--" + boundary[1].encode())
    return json.loads(beside.partition(b"\n\n")[2]), media.partition(b"\n\n")[2].removesuffix(b"\n")


def _decoded(raw: str) -> bytes:
    return base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4))


def without_bcc(source: bytes) -> bytes:
    head, blank, body = source.partition(b"\r\n\r\n")
    return (
        re.sub(rb"(?im)^Bcc:.*(?:\r\n[ \t].*)*\r\n", b"", head + b"\r\n").removesuffix(b"\r\n")
        + blank
        + body
    )


def mask_fields(answer: Any, fields: str) -> Any:
    """Return the members that a mask such as `id,payload(headers,parts(partId))` names."""
    return _cut(answer, _mask(iter(re.findall(r"[\w]+|[(),]", fields))))


def _mask(tokens: Iterator[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    last = ""
    for token in tokens:
        if token == ")":
            break
        if token == "(":
            found[last] = _mask(tokens)
        elif token != ",":
            last = token
            found[last] = {}
    return found


def _cut(answer: Any, mask: dict[str, Any]) -> Any:
    if isinstance(answer, list):
        return [_cut(each, mask) for each in answer]
    if not isinstance(answer, dict) or not mask:
        return answer
    return {name: _cut(value, mask[name]) for name, value in answer.items() if name in mask}
