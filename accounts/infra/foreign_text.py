"""The one door for text that others wrote: which letters it may have, JSON, numbers, addresses.

A linter forbids `json.loads`, `urlsplit` and `urlparse` elsewhere: each raises more for foreign
text than its caller expects. So does `int`: Python refuses more than 4,300 digits.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

from pydantic import AfterValidator

# PostgreSQL stores no NUL, and no encoding can write half a surrogate pair.
_SURROGATE = re.compile("[\ud800-\udfff]")
DIGITS_OF_AN_ID = 18  # more do not fit into a column of the database
PATH_CHARACTERS = 100  # the name of a member of foreign JSON can be as long as the body
BROKEN = "has a NUL or an unpaired surrogate, which no text may have"


def is_broken(text: str) -> bool:
    """Return True if a text has letters that no database or answer can hold."""
    return "\0" in text or (not text.isascii() and _SURROGATE.search(text) is not None)


def _check_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must have no control characters and no line breaks")
    return text


Line = Annotated[str, AfterValidator(_check_line)]  # a name or an id, which may go into a header


def load_json(text: str | bytes | bytearray) -> Any:
    """Return the parsed JSON; raise ValueError and nothing else if that is impossible."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def parse_number(text: str, *, digits: int = DIGITS_OF_AN_ID) -> int | None:
    """Return the number that a text of 1 to `digits` ASCII digits writes; None for another text."""
    fits = text.isascii() and text.isdecimal() and len(text) <= digits
    return int(text) if fits else None


def parse_uuid(text: str) -> UUID | None:
    """Return the id that a text writes; None for any other text."""
    try:
        return UUID(text)
    except ValueError:
        return None


def find_broken(document: Any) -> Iterator[str]:
    """Yield the path of each broken text in parsed JSON, such as `to.0`, cut to `PATH_CHARACTERS`."""
    waiting = [iter([("", document)])]
    while waiting:
        for path, value in waiting[-1]:
            if isinstance(value, str):
                if is_broken(value):
                    yield path
            elif isinstance(value, Mapping | list):
                waiting.append(_members(path, value))
                break
        else:
            waiting.pop()


def _members(path: str, value: Mapping[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each member; a broken name takes the place of its value."""
    for name, each in value.items() if isinstance(value, Mapping) else enumerate(value):
        if isinstance(name, str) and is_broken(name):
            yield path, name
        else:
            yield (f"{path}.{name}" if path else f"{name}")[:PATH_CHARACTERS], each


def parse_url(text: str) -> SplitResult:
    """Return the parts of an address; raise ValueError for one that cannot be read, also by its
    port, and for control characters, which `urlsplit` removes.
    """
    if not text.isprintable():
        raise ValueError("an address has no control characters")
    parts = urlsplit(text)
    _ = parts.port
    return parts


def origin_of(url: str) -> str:
    """Return the scheme, host and port of an address; raise the same."""
    parts = parse_url(url)
    return f"{parts.scheme}://{parts.netloc}"
