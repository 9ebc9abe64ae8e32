"""Short lists in one line, with the comma of the reader's language."""

from collections.abc import Iterable

from django.utils.translation import pgettext


def between() -> str:
    """Return what is between two parts of a list."""
    return pgettext("between two parts of a list", ", ")


def join_listed(parts: Iterable[object]) -> str:
    return between().join(map(str, parts))
