"""The messages of tests/corpus/mail over REST, from four servers: read as expected, and alike.

tests/tools/test_mail_corpus.py reads each of them from its bytes, in every run. The four servers
differ in the way that they hand a message over, so a part of each class of messages shows that.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.letter_checks import Seen, list_failures, see
from tests.support.letters import Letter, list_classes, read_letters
from tests.support.people.four_mailboxes import Door, doors
from tests.support.variations import make_letters

__all__ = ["doors"]


@pytest.mark.parametrize("name", list_classes())
@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.long)])
def test_each_message_is_read_alike_everywhere(doors: list[Door], name: str, step: int) -> None:
    failed = _read_all(doors, read_letters(name)[::step])
    assert not failed, _describe(failed)


@pytest.mark.parametrize(("seed", "count"), [(1, 8), pytest.param(2, 200, marks=pytest.mark.long)])
def test_random_messages_are_read_alike(doors: list[Door], seed: int, count: int) -> None:
    failed = _read_all(doors, make_letters(count, seed=seed))
    assert not failed, _describe(failed)


def _read_all(doors: list[Door], letters: list[Letter]) -> dict[str, list[str]]:
    """Return what is wrong with each message, if anything is."""
    cards = [door.receive([letter.source for letter in letters]) for door in doors]
    failed: dict[str, list[str]] = {}
    for letter, *listed in zip(letters, *cards, strict=True):
        seen = {
            door.name: see(door, letter, card) for door, card in zip(doors, listed, strict=True)
        }
        if wrong := _list_wrong(letter, seen):
            failed[letter.id] = wrong
    return failed


def _describe(failed: dict[str, list[str]]) -> str:
    return "\n".join(f"{id_}: {each}" for id_, wrong in failed.items() for each in wrong)


def _list_wrong(letter: Letter, seen: dict[str, Seen]) -> list[str]:
    """Return each failure with the providers that have it."""
    found: dict[str, list[str]] = {}
    for name, each in seen.items():
        for failure in list_failures(letter, each):
            found.setdefault(failure, []).append(name)
    wrong = [
        failure if len(names) == len(seen) else f"{', '.join(names)}: {failure}"
        for failure, names in found.items()
    ]
    first, *others = ((name, each.common()) for name, each in seen.items())
    return [*wrong, *(line for name, each in others for line in _compare(*first, name, each))]


def _compare(first: str, left: Any, second: str, right: Any, place: str = "") -> Iterator[str]:
    """Yield the places in which two results differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            yield from _compare(first, left.get(key), second, right.get(key), f"{place} {key}")
    elif left != right:
        yield f"{first} and {second} differ in{place}: {left!r}, {right!r}"
