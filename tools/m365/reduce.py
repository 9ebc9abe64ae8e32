"""The short form of a command's output for a model: a few fields, no secret, at most 4,000
characters. Pure.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from accounts.infra.foreign_text import load_json
from tools.mail.text.redaction import shorten

MAX_CHARS = 4000
STATUS_FIELDS = ("connectedAs", "cloudType", "authType", "connectionName", "appId", "appTenant")


def reduce_output(command: str, raw: str) -> str:
    """Return the short form of a command's output; output without a short form is only cut."""
    try:
        data = load_json(raw)
    except (ValueError, RecursionError):
        return shorten(raw, MAX_CHARS)
    short = REDUCERS[command](data) if command in REDUCERS else None
    # JSON objects and lists become compact; a bare string or number stays unchanged.
    shown = _dump(data if short is None else short) if isinstance(data, dict | list) else raw
    return shorten(shown, MAX_CHARS)


def _status(data: Any) -> Any:
    return (
        {name: data[name] for name in STATUS_FIELDS if name in data}
        if isinstance(data, dict)
        else None
    )


def _event_add(data: Any) -> Any:
    if not isinstance(data, dict):
        return None
    attendees = data.get("attendees")
    members = {
        "id": data.get("id"),
        "subject": data.get("subject"),
        "start": _inside(data.get("start")).get("dateTime") or data.get("start"),
        "end": _inside(data.get("end")).get("dateTime") or data.get("end"),
        "attendees": len(attendees) if isinstance(attendees, list) else None,
    }
    return {name: value for name, value in members.items() if value is not None}


REDUCERS: Mapping[str, Callable[[Any], Any]] = {
    "status": _status,
    "outlook event add": _event_add,
}


def _inside(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _dump(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
