"""Stored English texts, in the reader's language."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import template

from accounts.infra import texts

register = template.Library()


@register.filter
def readable(found: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> Any:
    """Return a stored object, or a list of them, whose texts appear in the reader's language."""
    if not found:
        return found
    if isinstance(found, Mapping):
        return texts.load_texts(found)
    return [texts.load_texts(each) for each in found]
