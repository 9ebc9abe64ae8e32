"""Results cut to a size limit, with explicit marks at each cut. Pure."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from tools import answers
from tools.mail.message.page_text import Readable
from tools.providers.base import AttachmentInfo, Card, Message

if TYPE_CHECKING:
    from tools.providers.gmail.reading import Found, GmailMessage

CARD_BYTES = 240  # of a card as compact JSON, without its ids
NAME_BYTES = 24
SUBJECT_BYTES = 64
HEADER_BYTES = 1000
SHOWN_ADDRESSES = 100
SHOWN_HEADERS = ("From", "To", "Subject", "Date")
GO_ON = (
    "A text with truncated is cut: go on with read_email, with its id as message_id and next_offset"
    " as offset."
)
MORE_HEADERS = ("Cc", "Bcc", "Reply-To", "Message-ID", "In-Reply-To", "References")


def cut(text: str, limit: int) -> str:
    """Return the text within `limit` bytes of JSON; a cut text ends in …"""
    if _size(text) <= limit:
        return text
    if limit < 3:
        return ""
    kept = text.encode()[: limit - 3].decode(errors="ignore").rstrip()
    while kept and _size(kept) > limit - 3:  # characters that JSON escapes need more bytes
        kept = kept[: -max((_size(kept) - limit + 3) // 6, 1)]
    return kept + "…" if kept else ""


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def _size_of(row: dict[str, Any]) -> int:
    return len(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode())


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def card(found: Card) -> answers.Card:
    """Return the contract's `card`: name and subject are cut, and the snippet gets the remaining
    bytes.
    """
    ids = _ids(found)
    row: dict[str, Any] = {"from": found.from_address}
    if found.from_name:
        row["name"] = cut(found.from_name, NAME_BYTES)
    row |= {
        "subject": cut(found.subject, SUBJECT_BYTES),
        "date": rfc3339(found.date) if found.date else "",
        "snippet": "",
    }
    if found.unread:
        row["unread"] = True
    if found.attachments:
        row["attachments"] = found.attachments
    taken = _size_of(row)
    row["snippet"] = cut(found.snippet, max(CARD_BYTES - taken, 0))
    return cast(answers.Card, ids | row)


def gmail_row(row: "Found") -> answers.GmailRow:
    """Return a row of `gmail_search_messages`; a row that could not be filled in has only
    its ids.
    """
    shown: dict[str, Any] = {"id": row.id, "thread_id": row.thread_id}
    known = {
        "from_email": row.from_address,
        "subject": None if row.subject is None else cut(row.subject, SUBJECT_BYTES),
        "date": None if row.date is None else rfc3339(row.date),
    }
    shown |= {name: value for name, value in known.items() if value}
    taken = _size_of({**shown, "id": "", "thread_id": "", "snippet": ""})
    snippet = cut(row.snippet or "", max(CARD_BYTES - taken, 0))
    return cast(answers.GmailRow, shown | ({"snippet": snippet} if snippet else {}))


def gmail_message(
    found: "GmailMessage", text: Readable, html: str | None, *, offset: int, max_chars: int
) -> answers.GmailEmail:
    """Return the contract's `gmail_get_message` result: the useful headers, and a piece of each
    body.
    """
    given = {name.lower(): value for name, value in found.headers.items()}
    headers = {name: cut(given.get(name.lower(), ""), HEADER_BYTES) for name in SHOWN_HEADERS}
    headers |= {
        name: cut(given[name.lower()], HEADER_BYTES)
        for name in MORE_HEADERS
        if given.get(name.lower())
    }
    row: dict[str, Any] = {
        "id": found.message.id,
        "thread_id": found.message.thread_id,
        "headers": headers,
        "snippet": found.snippet,
    }
    bodies = {"body_text": text.text, "body_html": html or ""}
    row |= {
        name: body[offset : offset + max_chars] for name, body in bodies.items() if body[offset:]
    }
    longest = max(map(len, bodies.values()))
    if offset + max_chars < longest:
        row["truncated"] = {"next_offset": offset + max_chars, "total_chars": longest}
    return cast(answers.GmailEmail, row | _facts(found.message, text))


def attachment(info: AttachmentInfo) -> answers.AttachmentRow:
    row = _file(info)
    if info.inline:
        row["inline"] = True
    return row


def _file(info: AttachmentInfo) -> answers.AttachmentRow:
    row: answers.AttachmentRow = {
        "id": info.id,
        "name": info.name,
        "type": info.type,
        "size": info.size,
    }
    if info.size_is_estimate:
        row["size_is_estimate"] = True
    if info.original_name:
        row["original_name"] = cut(info.original_name, HEADER_BYTES)
    return row


def _facts(found: Message, body: Readable) -> dict[str, Any]:
    """Return the kind of a message with its facts, what its text lacks, the verdicts on its sender,
    and what its reader must know about it.
    """
    row: dict[str, Any] = {"kind": found.kind, found.kind: found.facts} if found.kind else {}
    row |= {"hidden_text_removed": True} if body.hidden_text_removed else {}
    row |= {"folded": dict(body.folded)} if body.folded else {}
    row |= {"authentication": dict(found.authentication)} if found.authentication else {}
    notes = list(dict.fromkeys((*found.notes, *body.notes)))
    return row | ({"notes": notes} if notes else {})


def message(found: Message, body: Readable, *, offset: int, max_chars: int) -> answers.Email:
    """Return the contract's `read_email` result.

    It has `max_chars` characters of the body from `offset`, and the next offset.
    """
    shown = body.text[offset : offset + max_chars]
    row: dict[str, Any] = _ids(found)
    row |= {"from": cut(found.from_address, HEADER_BYTES), "to": _shorten(found.to)}
    if found.cc:
        row["cc"] = _shorten(found.cc)
    row |= {
        "subject": cut(found.subject, HEADER_BYTES),
        "date": rfc3339(found.date) if found.date else "",
        "body": shown,
    }
    if offset + len(shown) < len(body.text):
        row["truncated"] = {"next_offset": offset + len(shown), "total_chars": len(body.text)}
    row |= _facts(found, body)
    if found.attachments:
        row["attachments"] = [_file(info) for info in found.attachments]
    return cast(answers.Email, row)


def _shorten(addresses: tuple[str, ...]) -> list[str]:
    """Return the first hundred addresses, and the number of the others."""
    shown = [cut(address, 254) for address in addresses[:SHOWN_ADDRESSES]]
    more = len(addresses) - len(shown)
    return [*shown, f"… and {more} more"] if more else shown


def thread(
    found: list[tuple[Message, Readable]], *, named: str, max_chars: int, is_whole: bool
) -> answers.Conversation:
    """Return the contract's `read_thread` result.

    The named message gets its characters first, then newer ones before older ones. A text that did
    not fit says where `read_email` goes on, and `next` how; `truncated` says that there is such a
    text, or that messages may be missing.
    """
    left, bodies, is_cut = max_chars, dict[str, str](), False
    newest_first = found[::-1]
    for each, body in sorted(newest_first, key=lambda pair: pair[0].id != named):
        shown = body.text[:left]
        is_cut = is_cut or len(shown) < len(body.text)
        left -= len(shown)
        bodies[each.id] = shown
    rows = [
        {
            "id": each.id,
            "from": each.from_address,
            **({"name": cut(each.from_name, NAME_BYTES)} if each.from_name else {}),
            "date": rfc3339(each.date) if each.date else "",
            "body": bodies[each.id],
        }
        | _rest_of(bodies[each.id], body)
        | _facts(each, body)
        | ({"attachments": [_file(info) for info in each.attachments]} if each.attachments else {})
        for each, body in found
    ]
    thread_id = next(({"thread_id": each.thread_id} for each, _ in found if each.thread_id), {})
    marks: dict[str, Any] = {"truncated": True} if is_cut or not is_whole else {}
    missing = [] if is_whole else ["Older messages may be missing."]
    marks |= {"next": " ".join([*([GO_ON] if is_cut else []), *missing])} if marks else {}
    return cast(answers.Conversation, {**thread_id, "messages": rows} | marks)


def _rest_of(shown: str, body: Readable) -> dict[str, Any]:
    """Return the member that says where a cut text goes on."""
    if len(shown) == len(body.text):
        return {}
    return {"truncated": {"next_offset": len(shown), "total_chars": len(body.text)}}


def _ids(found: Card | Message) -> dict[str, Any]:
    return {"id": found.id} | ({"thread_id": found.thread_id} if found.thread_id else {})
