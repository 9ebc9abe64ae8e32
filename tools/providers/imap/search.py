"""Translation of a search into the criteria of IMAP SEARCH (RFC 3501 6.4.4). Pure.

A raw query may be SEARCH keys (`FROM mira SINCE 1-Nov-2026 OR SUBJECT invoice SUBJECT bill`). It
may also be plain words, which are searched in the whole text, or in a header (`from:mira`). The
query is parsed here against the known keys, and no part of it reaches the wire unchanged.

Criteria are flat, without parentheses, and texts are always in quotes or literals, so that no text
is read as a key.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from accounts.infra.foreign_text import parse_number
from accounts.infra.texts import join, translatable
from tools.providers.base import SearchQuery
from tools.providers.errors import Refused, Unsupported

ALONE = frozenset(
    "ALL ANSWERED DELETED DRAFT FLAGGED NEW OLD RECENT SEEN UNANSWERED UNDELETED UNDRAFT UNFLAGGED UNSEEN".split()
)
WITH_TEXT = frozenset("BCC BODY CC FROM SUBJECT TEXT TO".split())
FLAGS = frozenset("KEYWORD UNKEYWORD".split())
WITH_DATE = frozenset("BEFORE ON SINCE SENTBEFORE SENTON SENTSINCE".split())
WITH_NUMBER = frozenset("LARGER SMALLER".split())
COMBINING = frozenset({"OR", "NOT"})
KEYS = ALONE | FLAGS | WITH_TEXT | WITH_DATE | WITH_NUMBER | COMBINING | {"HEADER"}
FLAG = re.compile(r"[$A-Za-z0-9_.-]{1,60}")
HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,60}")
# Strftime would follow the server's language.
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
MAX_TOKENS = 60


@dataclass(frozen=True)
class Text:
    """A text to search for, in contrast to the words of the protocol."""

    text: str


Criterion = str | Text | int | date
HINT = translatable(
    "Use words, or IMAP SEARCH keys such as FROM, SUBJECT, TEXT, SINCE 1-Nov-2026, UNSEEN."
)


def criteria(query: SearchQuery, *, today: date) -> list[Criterion]:
    """Return the criteria, all of which must match. Raises Refused("invalid_query") or
    Unsupported.
    """
    if query.label_ids:
        raise Unsupported("unsupported", "This mailbox has folders, not labels. Omit label_ids.")
    found: list[Criterion] = []
    for key, value in (
        ("FROM", query.from_),
        ("TO", query.to),
        ("SUBJECT", query.subject),
        ("TEXT", query.text),
    ):
        if value:
            found += [key, Text(value)]
    if query.since:
        found += ["SINCE", query.since]
    if query.before:
        found += ["BEFORE", query.before]
    if query.newer_than_days is not None:
        found += ["SINCE", today - timedelta(days=query.newer_than_days)]
    if query.unread is not None:
        found.append("UNSEEN" if query.unread else "SEEN")
    found += ["NOT", "HEADER", query.without_header, Text("")] if query.without_header else []
    found += ["NOT", "FROM", Text(query.not_from)] if query.not_from else []
    return found + _raw(query.raw)


def _raw(query: str) -> list[Criterion]:
    try:
        tokens = shlex.split(query.replace("(", " ( ").replace(")", " ) "), posix=True)
    except ValueError:
        tokens = query.split()  # an unmatched quote is an ordinary word
    if len(tokens) > MAX_TOKENS:
        raise Refused(
            "invalid_query",
            translatable("The query has more than %(max_tokens)s words.", max_tokens=MAX_TOKENS),
        )
    if not tokens:
        return []
    if tokens[0].upper() not in KEYS and tokens[0] != "(":
        words = [word for word in tokens if word not in "()"]
        return [part for word in words for part in _word(word)]
    found: list[Criterion] = []
    rest = tokens[::-1]
    while rest:
        found += [part for key in _keys(rest) for part in key]
    return found


def _word(word: str) -> tuple[str, Text]:
    """Return the key for a word; `from:mira` is a search in a header, as in most search boxes."""
    name, _, text = word.partition(":")
    key = name.upper()
    return (key, Text(text)) if text and key in WITH_TEXT else ("TEXT", Text(word))


def _keys(rest: list[str], depth: int = 0) -> list[list[Criterion]]:
    """Take one search key with its arguments, or the keys of one group, from the end of `rest`."""
    if depth > 10:
        raise Refused("invalid_query", "The query is nested too deeply.")
    word = _next(rest)
    if word != "(":
        return [_key(word.upper(), rest, depth)]
    group: list[list[Criterion]] = []
    while rest and rest[-1] != ")":
        group += _keys(rest, depth + 1)
    _next(rest)
    return group


def _key(key: str, rest: list[str], depth: int) -> list[Criterion]:
    if key in ALONE:
        return [key]
    if key in FLAGS:
        return [key, _flag(_next(rest))]
    if key in WITH_TEXT:
        return [key, Text(_next(rest))]
    if key in WITH_DATE:
        return [key, _date(_next(rest))]
    if key in WITH_NUMBER:
        return [key, _number(_next(rest))]
    if key == "NOT":
        return _not(_all_of(_keys(rest, depth + 1)))
    if key == "OR":
        return ["OR", *_all_of(_keys(rest, depth + 1)), *_all_of(_keys(rest, depth + 1))]
    if key == "HEADER":
        name = _next(rest)
        if not HEADER_NAME.fullmatch(name):
            raise Refused(
                "invalid_query", join(translatable("HEADER needs a header's name."), HINT)
            )
        return ["HEADER", name, Text(_next(rest))]
    raise Refused(
        "invalid_query", join(translatable("One of the words is not a search key."), HINT)
    )


def _all_of(keys: list[list[Criterion]]) -> list[Criterion]:
    """Return one key that means all of these: A and B are not (not A or not B)."""
    if not keys:
        return ["ALL"]
    first, *others = keys
    return ["NOT", "OR", *_not(first), *_not(_all_of(others))] if others else first


def _not(key: list[Criterion]) -> list[Criterion]:
    return key[1:] if key[0] == "NOT" else ["NOT", *key]  # some servers do not take NOT NOT


def arguments(criteria: Sequence[Criterion]) -> list[bytes]:
    """Return the bytes after SEARCH on the wire; IMAPClient sends non-ASCII text as a literal."""
    named = (
        []
        if all(part.text.isascii() for part in criteria if isinstance(part, Text))
        else [b"CHARSET", b"UTF-8"]
    )
    return [*named, *(_argument(part) for part in criteria)]


def _argument(part: Criterion) -> bytes:
    match part:
        case Text(text=text) if text.isascii():
            return b'"' + text.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'
        case Text(text=text):
            return text.encode()
        case date():
            return f"{part.day}-{MONTHS[part.month - 1]}-{part.year:04}".encode()
    return str(part).encode()


def _next(rest: list[str]) -> str:
    if not rest:
        raise Refused("invalid_query", join(translatable("A search key lacks its value."), HINT))
    return rest.pop()


def _flag(token: str) -> str:
    if not FLAG.fullmatch(token):
        raise Refused("invalid_query", "KEYWORD needs the name of a flag.")
    return token


def _date(token: str) -> date:
    for form in ("%d-%b-%Y", "%Y-%m-%d"):
        try:
            return datetime.strptime(token, form).replace(tzinfo=UTC).date()
        except ValueError:
            continue
    raise Refused("invalid_query", "A date looks like 1-Nov-2026 or 2026-11-01.")


def _number(token: str) -> int:
    number = parse_number(token)
    if number is None:
        raise Refused("invalid_query", "LARGER and SMALLER need a number of bytes.")
    return number
