"""Results cut to a budget, with explicit marks where something was cut. Pure."""

from datetime import UTC, datetime
from typing import Any

from tools.providers.base import Card, Message

CARD_BYTES = 240  # of name, subject and snippet together
NAME_BYTES = 60
SUBJECT_BYTES = 120


def cut(text: str, limit: int) -> str:
    """The text within `limit` bytes of UTF-8; what was cut ends in …"""
    if len(text.encode()) <= limit:
        return text
    return text.encode()[: max(limit - 3, 0)].decode(errors="ignore").rstrip() + "…"


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def card(found: Card) -> dict[str, Any]:
    """The contract's `card`; the snippet gets what name and subject leave of the budget."""
    name, subject = cut(found.from_name, NAME_BYTES), cut(found.subject, SUBJECT_BYTES)
    left = CARD_BYTES - len(name.encode()) - len(subject.encode())
    row: dict[str, Any] = {"id": found.id, "from": found.from_address}
    if name:
        row["name"] = name
    row |= {"subject": subject, "date": rfc3339(found.date) if found.date else "", "snippet": cut(found.snippet, left)}
    if found.unread:
        row["unread"] = True
    if found.attachments:
        row["attachments"] = found.attachments
    return row


def message(found: Message, *, body: str, offset: int, max_chars: int) -> dict[str, Any]:
    """The contract's `read_email` result: `max_chars` characters of the body from `offset`, and where to go on."""
    shown = body[offset : offset + max_chars]
    row: dict[str, Any] = {"id": found.id, "from": found.from_address, "to": list(found.to)}
    if found.cc:
        row["cc"] = list(found.cc)
    row |= {"subject": found.subject, "date": rfc3339(found.date) if found.date else "", "body": shown}
    if offset + len(shown) < len(body):
        row["truncated"] = {"next_offset": offset + len(shown), "total_chars": len(body)}
    if found.attachments:
        row["attachments"] = [{"id": a.id, "name": a.name, "type": a.type, "size": a.size} for a in found.attachments]
    return row
