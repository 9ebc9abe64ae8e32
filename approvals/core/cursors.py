"""Cursors of lists: where the next page begins, as a word that is safe in a URL."""

import base64
import binascii
from datetime import UTC, datetime

from accounts.infra.problems import Problem


def write_cursor(at: datetime, key: str) -> str:
    """Return the cursor of a page that ends with this row, in base64url without padding."""
    return base64.urlsafe_b64encode(f"{at.isoformat()}~{key}".encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> tuple[datetime, str]:
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
    return at, key


def foreign_cursor() -> Problem:
    """Return the problem of a cursor that no list has given."""
    return Problem("invalid_input", "The cursor is not one that this list gave.")
