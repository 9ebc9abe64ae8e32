"""A search in Graph's two languages. Pure.

`$filter` compares fields exactly and keeps the order; `$search` (KQL) looks for words and has its
own order. Graph takes only one of them for messages:
https://learn.microsoft.com/graph/search-query-parameter
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from tools.providers.base import SearchQuery
from tools.providers.errors import Refused, Unsupported

TOKEN = re.compile(r"([0-9]{1,10})((?:-[0-9a-f]{12})*)")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A search for Graph. `search` is KQL without its outer quotes; `filters` are clauses of
    `$filter`.

    Only one of them is used. With `search`, `unread` is compared here.
    """

    search: str = ""
    filters: tuple[str, ...] = ()
    unread: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Below:
    """The end of a page: the second of its last message, and the marks of all messages of that
    second that were shown.
    """

    second: int
    seen: tuple[str, ...]

    @property
    def end(self) -> str:
        """Return the next second.

        Graph shows whole seconds but compares fractions: a message shown at 05 may have come at
        05.4.
        """
        return f"{datetime.fromtimestamp(self.second + 1, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def as_token(self) -> str:
        return "-".join([str(self.second), *self.seen])


def build_search(query: SearchQuery, *, today: date, as_words: bool = False) -> Wanted:
    """Return the search for Graph: words, senders and recipients need `$search`, everything else is
    a `$filter`.

    `as_words`: the raw query is not KQL, but words that must all match.
    """
    if query.label_ids:
        raise Unsupported("unsupported", "Microsoft 365 has folders, not labels. Use folder.")
    since = query.since or (
        today - timedelta(days=query.newer_than_days) if query.newer_than_days else None
    )
    if query.raw or query.text or query.from_ or query.to:
        return Wanted(search=_kql(query, since, as_words=as_words), unread=query.unread)
    filters = []
    if since:
        filters.append(f"receivedDateTime ge {since:%Y-%m-%d}T00:00:00Z")
    if query.before:
        filters.append(f"receivedDateTime lt {query.before:%Y-%m-%d}T00:00:00Z")
    if query.subject:
        filters.append(f"contains(subject,{quote_text(query.subject)})")
    if query.has_attachments is not None:
        filters.append(f"hasAttachments eq {_format_bool(query.has_attachments)}")
    return Wanted(filters=(*filters, *unread_filter(query.unread)))


def unread_filter(unread: bool | None) -> tuple[str, ...]:
    return () if unread is None else (f"isRead eq {_format_bool(not unread)}",)


def join_filters(filters: tuple[str, ...], below: Below | None) -> str:
    """Return one `$filter`.

    The field that sorts must be compared first, or Graph calls the filter inefficient.
    """
    first = (
        f"receivedDateTime lt {below.end}" if below else "receivedDateTime ge 1900-01-01T00:00:00Z"
    )
    return " and ".join([first, *filters]) if below or filters else ""


def quote_text(text: str) -> str:
    """Return a string of OData: a quote inside is written twice."""
    return "'" + text.replace("'", "''") + "'"


def below(written: str) -> Below:
    match = TOKEN.fullmatch(written)
    if not match:
        raise Refused("invalid_page_token", "This page token is not from this list.")
    return Below(second=int(match[1]), seen=tuple(part for part in match[2].split("-") if part))


def _kql(query: SearchQuery, since: date | None, *, as_words: bool) -> str:
    if as_words:
        query = replace(query, raw=" AND ".join(_quote_phrase(word) for word in query.raw.split()))
    clauses = [_escape(query.raw)] if query.raw else []
    clauses += [_phrase("", query.text)] if query.text else []
    for name, value in (("from:", query.from_), ("to:", query.to), ("subject:", query.subject)):
        clauses += [_phrase(name, value)] if value else []
    clauses += [f"received>={since:%Y-%m-%d}"] if since else []
    clauses += [f"received<{query.before:%Y-%m-%d}"] if query.before else []
    if query.has_attachments is not None:
        clauses.append(f"hasAttachments:{_format_bool(query.has_attachments)}")
    if query.raw and len(clauses) > 1:
        clauses[0] = f"({clauses[0]})"  # an OR in it must not weaken the other clauses
    return " AND ".join(clauses)


def _phrase(name: str, value: str) -> str:
    """Return a phrase. A quote inside would end it, and the rest would be read as KQL."""
    return _escape(f"{name}{_quote_phrase(value)}")


def _quote_phrase(value: str) -> str:
    return f'"{value.replace(chr(34), " ").strip()}"'


def _escape(kql: str) -> str:
    return kql.replace("\\", "\\\\").replace('"', '\\"')


def _format_bool(value: bool) -> str:
    return "true" if value else "false"
