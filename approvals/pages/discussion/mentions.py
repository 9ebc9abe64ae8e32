"""Mentions in a comment: `@` before the name or address of a member of the mailbox."""

import re
from collections.abc import Iterable, Iterator

from accounts.infra.problems import FieldError, Problem
from accounts.infra.texts import translatable
from accounts.models import User

# An address such as mira@northwind.example is no mention.
AT = re.compile(r"(?:^|(?<=[\s(,;:\"'“„]))@(?=\S)")
SHOWN = 40  # characters of a mention that means nobody


def find_mentioned(text: str, people: Iterable[User]) -> list[User]:
    """Return the people whom a text mentions, each once.

    The longest name counts, so "@Ada Byron" is not Ada Smith. Raises `invalid_input` for a mention
    that means nobody or several people: it would notify nobody, or the wrong person.
    """
    names: dict[str, list[User]] = {}
    for person in people:
        for name in set(_names_of(person)):
            names.setdefault(name, []).append(person)
    found: dict[int, User] = {}
    for mention in AT.finditer(text):
        rest = text[mention.end() :]
        meant = names.get(_longest_name(rest.casefold(), names), [])
        if len(meant) != 1:
            raise _refuse(rest, several=bool(meant))
        found[meant[0].pk] = meant[0]
    return list(found.values())


def _names_of(person: User) -> Iterator[str]:
    local, _, _ = person.email.partition("@")
    for name in (person.get_full_name(), person.get_short_name(), person.email, local):
        if name.strip():
            yield name.strip().casefold()


def _longest_name(rest: str, names: Iterable[str]) -> str:
    """Return the longest of the names with which a text begins, as a whole word; empty if none."""
    fitting = (name for name in names if rest.startswith(name) and not _goes_on(rest, len(name)))
    return max(fitting, key=len, default="")


def _goes_on(rest: str, end: int) -> bool:
    """Return True if the word goes on after `end`: a letter, or an address."""
    return bool(re.match(r"[\w@-]|\.\w", rest[end:]))


def _refuse(rest: str, *, several: bool) -> Problem:
    word = rest.split()[0][:SHOWN]
    text = (
        translatable("“@%(name)s” means several members. Write the address.", name=word)
        if several
        else translatable("“@%(name)s” is no member of this mailbox.", name=word)
    )
    return Problem("invalid_input", text, errors=(FieldError(field="text", message=text),))
