"""The one door for text that others wrote: which letters it may have, JSON, and addresses.

A linter forbids `json.loads`, `urlsplit` and `urlparse` elsewhere: each raises more for foreign
text than its caller expects.
"""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator

# PostgreSQL stores no NUL, and no encoding can write half a surrogate pair.
_BROKEN = re.compile("[\x00\ud800-\udfff]")
BROKEN = "has a NUL or an unpaired surrogate, which no text may have"


def is_broken(text: str) -> bool:
    """Return True if a text has letters that no database or answer can hold."""
    return _BROKEN.search(text) is not None


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


def find_broken(document: Any) -> Iterator[str]:
    """Yield the path of each broken text in parsed JSON, such as `to.0`."""
    waiting = [("", document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            if is_broken(value):
                yield path
        elif isinstance(value, dict):
            for name, each in value.items():
                if is_broken(name):
                    yield path
                else:
                    waiting.append((f"{path}.{name}" if path else name, each))
        elif isinstance(value, list):
            waiting += [(f"{path}.{place}", each) for place, each in enumerate(value)]


def parse_url(text: str) -> SplitResult:
    """Return the parts of an address; raise ValueError for one that cannot be read, also by its
    port, and for control characters, which `urlsplit` removes.
    """
    if not text.isprintable():
        raise ValueError("an address has no control characters")
    parts = urlsplit(text)
    _ = parts.port
    return parts
