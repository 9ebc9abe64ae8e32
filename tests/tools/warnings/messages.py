"""Messages for the tests of the warnings."""

from datetime import UTC, datetime
from typing import Any

from tools.mail.message.compose import OutgoingMessage, Request, new_message
from tools.mail.message.content import Content, own_content
from tools.warnings import Context, KnownDomain, find_warnings

OWN = frozenset({"lovelace.example"})
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


def answered(*domains: str) -> dict[str, KnownDomain]:
    """Return these domains as known for the same time, with an answer from each."""
    return {domain: KnownDomain(since=SINCE, answered=True) for domain in domains}


def message(
    body: str = "Hello", *, html: bool = False, content: Content | None = None, **more: Any
) -> OutgoingMessage:
    fields: dict[str, Any] = {
        "from_address": "alice@lovelace.example",
        "to": ("bob@lovelace.example",),
        "subject": "Hello",
        "content": content or own_content(body, "html" if html else "text"),
        **more,
    }
    return new_message(Request(**fields))


def codes(outgoing: OutgoingMessage, **known: Any) -> list[str]:
    return [
        warning.code
        for warning in find_warnings(outgoing, Context(**{"own_domains": OWN, **known}))
    ]
