"""From a search to the criteria of IMAP SEARCH (RFC 3501 6.4.4). Pure.

A raw query may be SEARCH keys (`FROM mira SINCE 1-Nov-2026 OR SUBJECT invoice SUBJECT bill`) or plain words, which
are looked for in the whole text. Whatever it holds is parsed here against the known keys: nothing of it reaches the
wire as it stands.
"""

import re
import shlex
from datetime import UTC, date, datetime, timedelta

from tools.providers.base import Refused, SearchQuery, Unsupported

ALONE = frozenset(
    "ALL ANSWERED DELETED DRAFT FLAGGED NEW OLD RECENT SEEN UNANSWERED UNDELETED UNDRAFT UNFLAGGED UNSEEN".split()
)
WITH_TEXT = frozenset("BCC BODY CC FROM SUBJECT TEXT TO KEYWORD UNKEYWORD".split())
WITH_DATE = frozenset("BEFORE ON SINCE SENTBEFORE SENTON SENTSINCE".split())
WITH_NUMBER = frozenset("LARGER SMALLER".split())
COMBINING = frozenset({"OR", "NOT"})
KEYS = ALONE | WITH_TEXT | WITH_DATE | WITH_NUMBER | COMBINING | {"HEADER"}
HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,60}")
UNSAFE = re.compile(r"[\x00-\x1f\x7f]")
MAX_TOKENS = 60

Criterion = str | int | date | list["Criterion"]
HINT = "Use words, or IMAP SEARCH keys such as FROM, SUBJECT, TEXT, SINCE 1-Nov-2026, UNSEEN."


def criteria(query: SearchQuery, *, today: date) -> list[Criterion]:
    """The criteria, all of which must hold. Raises Refused("invalid_query") or Unsupported."""
    if query.label_ids:
        raise Unsupported("unsupported", "This mailbox has folders, no labels: leave label_ids out.")
    found: list[Criterion] = []
    for key, value in (("FROM", query.from_), ("TO", query.to), ("SUBJECT", query.subject), ("TEXT", query.text)):
        if value:
            found += [key, _safe(value)]
    if query.since:
        found += ["SINCE", query.since]
    if query.before:
        found += ["BEFORE", query.before]
    if query.newer_than_days is not None:
        found += ["SINCE", today - timedelta(days=query.newer_than_days)]
    if query.unread is not None:
        found.append("UNSEEN" if query.unread else "SEEN")
    return found + _raw(query.raw)


def _raw(query: str) -> list[Criterion]:
    try:
        tokens = shlex.split(_safe(query).replace("(", " ( ").replace(")", " ) "), posix=True)
    except ValueError:
        tokens = query.split()  # a lone quote is a word like others
    if len(tokens) > MAX_TOKENS:
        raise Refused("invalid_query", f"The query has more than {MAX_TOKENS} words.")
    if not tokens:
        return []
    if tokens[0].upper() not in KEYS and tokens[0] != "(":
        words = [word for word in tokens if word not in "()"]
        return [part for word in words for part in ("TEXT", word)]
    found: list[Criterion] = []
    rest = tokens[::-1]
    while rest:
        found += _key(rest)
    return found


def _key(rest: list[str], depth: int = 0) -> list[Criterion]:
    """One search key from the end of `rest`, with its arguments."""
    if depth > 10:
        raise Refused("invalid_query", "The query is nested too deep.")
    word = _next(rest)
    if word == "(":
        group: list[Criterion] = []
        while rest and rest[-1] != ")":
            group += _key(rest, depth + 1)
        _next(rest)
        return [group]
    key = word.upper()
    if key in ALONE:
        return [key]
    if key in WITH_TEXT:
        return [key, _next(rest)]
    if key in WITH_DATE:
        return [key, _date(_next(rest))]
    if key in WITH_NUMBER:
        return [key, _number(_next(rest))]
    if key == "NOT":
        return ["NOT", _key(rest, depth + 1)]
    if key == "OR":
        return ["OR", _key(rest, depth + 1), _key(rest, depth + 1)]
    if key == "HEADER":
        name = _next(rest)
        if not HEADER_NAME.fullmatch(name):
            raise Refused("invalid_query", f"HEADER needs a header's name. {HINT}")
        return ["HEADER", name, _next(rest)]
    raise Refused("invalid_query", f"One of the words is no search key. {HINT}")


def _next(rest: list[str]) -> str:
    if not rest:
        raise Refused("invalid_query", f"A search key lacks its value. {HINT}")
    return rest.pop()


def _date(token: str) -> date:
    for form in ("%d-%b-%Y", "%Y-%m-%d"):
        try:
            return datetime.strptime(token, form).replace(tzinfo=UTC).date()
        except ValueError:
            continue
    raise Refused("invalid_query", "A date looks like 1-Nov-2026 or 2026-11-01.")


def _number(token: str) -> int:
    if not token.isdecimal():
        raise Refused("invalid_query", "LARGER and SMALLER need a number of bytes.")
    return int(token)


def _safe(value: str) -> str:
    if UNSAFE.search(value):
        raise Refused("invalid_query", "A query holds no control characters.")
    return value
