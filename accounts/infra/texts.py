"""English texts that a page shows in the reader's language.

REST, MCP, logs and the database hold the English text. A `Translatable` also remembers the source
string and the values that it was made from, so that a page can translate it when it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.html import escape
from django.utils.translation import gettext, ngettext, pgettext

# Source string, values, and the plural source string or "".
Part = tuple[str, Mapping[str, Any], str]
# Members of stored warnings and errors that people read.
TEXTS = ("title", "text", "detail")


class Translatable(str):
    """An English text of one or more sentences. In HTML it appears in the active language.

    Other strings behave the same in HTML, apart from the translation: they are escaped.
    """

    __slots__ = ("parts",)
    parts: tuple[Part, ...]

    def __new__(cls, english: str, parts: tuple[Part, ...] | None = None) -> Translatable:
        made = super().__new__(cls, english)
        made.parts = ((english, {}, ""),) if parts is None else parts
        return made

    def __str__(self) -> str:
        """Return itself, so that the text of an exception stays translatable."""
        return self

    def __html__(self) -> str:
        return escape(self.localize())

    def localize(self) -> str:
        """Return the text in the active language; in English where a translation is missing."""
        return " ".join(_translate(*part) for part in self.parts)


def as_translatable(text: str) -> Translatable:
    """Return the text; a text without a source is its own source."""
    return text if isinstance(text, Translatable) else Translatable(text)


def translatable(source: str, **values: Any) -> Translatable:
    """Return `source` with its `%(name)s` replaced by the values of these names."""
    return Translatable(source % values if values else source, ((source, values, ""),))


def ntranslatable(one: str, many: str, count: int, **values: Any) -> Translatable:
    """Return the form for `count`, which both forms may name as `%(count)s`."""
    values = {**values, "count": count}
    return Translatable((one if count == 1 else many) % values, ((one, values, many),))


def join(*sentences: str) -> Translatable:
    """Return the sentences one after another, without the empty ones."""
    found = [as_translatable(each) for each in sentences if each]
    return Translatable(" ".join(found), tuple(part for each in found for part in each.parts))


def dump_texts(**texts: str) -> dict[str, Any]:
    """Return JSON members for the texts, and under `sources` what a translation needs.

    A text without values is its own source, so nothing more is stored for it.
    """
    sources = {
        name: [list(part) for part in value.parts]
        for name, value in texts.items()
        if isinstance(value, Translatable) and value.parts != Translatable(value).parts
    }
    plain = {name: str(value) for name, value in texts.items()}
    return {**plain, "sources": sources} if sources else plain


def load_texts(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a stored object with a `Translatable` for each name of `TEXTS`."""
    sources = members.get("sources", {})
    restored = {
        name: Translatable(members[name], _parts(sources.get(name)))
        for name in TEXTS
        if name in members
    }
    return {**without_sources(members), **restored}


def without_sources(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a stored object as programs see them."""
    return {name: value for name, value in members.items() if name != "sources"}


def _parts(found: list[list[Any]] | None) -> tuple[Part, ...] | None:
    return tuple((one, values, many) for one, values, many in found) if found else None


def _translate(source: str, values: Mapping[str, Any], plural: str) -> str:
    if not source:
        return source
    if plural:
        return ngettext(source, plural, values["count"]) % values
    return gettext(source) % values if values else gettext(source)


def between() -> str:
    """Return what is between two parts of a list."""
    return pgettext("between two parts of a list", ", ")


def join_listed(parts: Iterable[object]) -> str:
    return between().join(map(str, parts))
