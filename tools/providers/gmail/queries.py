"""Translation of a search into Gmail's search language
(https://support.google.com/mail/answer/7190). Pure.

A raw query is passed on unchanged, because Gmail understands people's queries. Added terms are
quoted.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time

from tools.providers.base import SearchQuery
from tools.providers.errors import Refused

# Only labelIds knows an id such as Label_12; the operator wants the name that people see.
LABEL_ID = re.compile(r"Label_[0-9]+")
LEFT_OUT = frozenset({"SPAM", "TRASH"})  # from every list that does not name them
UNSAFE = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")
# An address or Message-ID that needs no quotes.
VALUE = re.compile(r"[^\s\"(){}<>\x00-\x1f\x7f]{3,500}")
PLAIN = re.compile(r"[\w.@+-]+")


def build_query(query: str, *, newer_than_days: int | None, label_ids: Sequence[str]) -> str:
    """Return the query with its filters: `from:test newer_than:7d label:INBOX`.

    Raises Refused("invalid_query").
    """
    terms = [_safe(query).strip()]
    if newer_than_days is not None:
        terms.append(f"newer_than:{newer_than_days}d")
    terms += [f"label:{_label(label)}" for label in label_ids if not LABEL_ID.fullmatch(label)]
    return " ".join(term for term in terms if term)


def ids_of(label_ids: Sequence[str]) -> list[str]:
    """Return the labels to ask for by id: the user's own labels given by id, and those that a query
    may not find.
    """
    ids = [label.upper() if label.upper() in LEFT_OUT else label for label in label_ids]
    return [label for label in ids if label in LEFT_OUT or LABEL_ID.fullmatch(label)]


def terms(query: SearchQuery) -> str:
    """Return the query of a search without its folder. Raises Refused("invalid_query")."""
    found = [
        build_query(query.raw, newer_than_days=query.newer_than_days, label_ids=query.label_ids)
    ]
    for operator, value in (
        ("from:", query.from_),
        ("to:", query.to),
        ("subject:", query.subject),
        ("", query.text),
    ):
        if value.strip():
            found.append(f"{operator}{_quote(value)}")
    if query.since:
        found.append(f"after:{_midnight(query.since) - 1}")
    if query.before:
        found.append(f"before:{_midnight(query.before)}")
    if query.has_attachments is not None:
        found.append("has:attachment" if query.has_attachments else "-has:attachment")
    if query.unread is not None:
        found.append("is:unread" if query.unread else "is:read")
    return " ".join(term for term in found if term)


def message_id_term(message_id: str) -> str:
    """Return the term that finds a message by its Message-ID; the brackets are not part of it."""
    return f"rfc822msgid:{message_id.strip('<>')}"


def _quote(value: str) -> str:
    value = _safe(value).strip()
    return value if PLAIN.fullmatch(value) else '"{}"'.format(value.replace('"', " ").strip())


def _label(label: str) -> str:
    """Return a label as Gmail writes it in a search: spaces and slashes become hyphens."""
    written = re.sub(r"[\s/]+", "-", _safe(label).strip())
    if not written or re.search(r"[\"(){}]", written):
        raise Refused(
            "invalid_query", "Use the name or the id of a label as list_folders shows it."
        )
    return written


def _midnight(day: date) -> int:
    """Return seconds since 1970: Gmail would read a plain date in its own time zone."""
    return int(datetime.combine(day, time(), tzinfo=UTC).timestamp())


def _safe(value: str) -> str:
    if UNSAFE.search(value):
        raise Refused("invalid_query", "A query must not contain control characters.")
    return value
