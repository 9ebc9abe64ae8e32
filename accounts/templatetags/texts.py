"""Stored English texts, in the reader's language."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import template

from accounts.infra import texts
from accounts.infra.lists import between, join_listed

register = template.Library()


@register.filter
def listed(parts: Iterable[object]) -> str:
    """Return the parts with the comma of the reader's language between them."""
    return join_listed(parts)


@register.simple_tag
def comma() -> str:
    """Return what is between two parts of a list, in the reader's language."""
    return between()


@register.filter
def readable(found: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> Any:
    """Return a stored object, or a list of them, whose texts appear in the reader's language."""
    if not found:
        return found
    if isinstance(found, Mapping):
        return texts.load_texts(found)
    return [texts.load_texts(each) for each in found]
