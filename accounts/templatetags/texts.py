"""Stored English texts, and short lists, in the reader's language."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import template

from accounts.infra.texts import between, join_listed, load_texts

register = template.Library()
register.filter("listed", join_listed)
register.simple_tag(between, name="comma")


@register.filter
def readable(found: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> Any:
    """Return a stored object, or a list of them, whose texts appear in the reader's language."""
    if not found:
        return found
    if isinstance(found, Mapping):
        return load_texts(found)
    return [load_texts(each) for each in found]
