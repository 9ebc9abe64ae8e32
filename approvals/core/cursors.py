"""Cursors of lists: where the next page begins, as a word that is safe in a URL."""

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from django.db.models import Q

from accounts.infra.foreign_text import parse_uuid
from accounts.infra.problems import Problem

K = TypeVar("K")


def write_cursor(at: datetime, key: str) -> str:
    """Return the cursor of a page that ends with this row, in base64url without padding."""
    return base64.urlsafe_b64encode(f"{at.isoformat()}~{key}".encode()).decode().rstrip("=")


def after_cursor(
    cursor: str | None,
    *,
    newest_first: bool = True,
    by: str = "created_at",
    parse: Callable[[str], object | None] = parse_uuid,
) -> Q:
    """Return the condition for rows after a cursor in the order of `by` and id; empty without one.

    Raises `invalid_input` for a cursor that no list has given.
    """
    if not cursor:
        return Q()
    at, key = read_cursor(cursor, parse)
    further = "lt" if newest_first else "gt"
    return Q(**{f"{by}__{further}": at}) | Q(**{by: at, f"id__{further}": key})


def read_cursor(cursor: str, parse: Callable[[str], K | None]) -> tuple[datetime, K]:
    """Return the time and the key in a cursor; raise Problem `invalid_input` if it has none."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text, _, key = base64.b64decode(padded, b"-_", validate=True).decode().partition("~")
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise ValueError("the time has no zone")
        at.astimezone(UTC)  # a time at the edge of the calendar has no equivalent
    except (binascii.Error, ValueError, OverflowError):
        raise foreign_cursor() from None
    if (parsed := parse(key)) is None:
        raise foreign_cursor()
    return at, parsed


def foreign_cursor() -> Problem:
    """Return the problem of a cursor that no list has given."""
    return Problem("invalid_input", "The cursor is not one that this list gave.")
