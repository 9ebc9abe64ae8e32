"""Differences between two revisions, field by field and word by word. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from typing import Literal

from approvals.core.answers import Change
from approvals.core.types import EditField, get_kind
from approvals.models import PendingAction

# A word, a run of white space, or one other character. Scripts without spaces are split into
# characters.
_ALONE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
TOKEN = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+|\s+|.", re.DOTALL)
# Comparing costs up to the cube of the length. Beyond these limits, a whole block is shown as
# replaced.
MOST_LINES = 5_000
MOST_TOKENS = 2_000
MOST_PAIRS = 8_000_000  # of equal lines and words that are looked at in all: half a second
MOST_CHARACTERS = 2_000  # of one value in an answer to a program


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch of text that stayed, was added, or was removed."""

    sort: Literal["same", "added", "removed"]
    text: str


@dataclass(frozen=True, kw_only=True)
class FieldChange:
    """A field that differs.

    The pieces that stayed and were removed make the text before; those that stayed and were added
    make the text after.
    """

    name: str
    label: str
    pieces: tuple[Piece, ...]


def compare_fields(
    before: Sequence[EditField], after: Sequence[EditField]
) -> tuple[FieldChange, ...]:
    """Return the fields that differ, in the order of the form.

    It compares the text that a person reads, if that differs.
    """
    old = {field.name: field for field in before}
    found = []
    for field in after:
        earlier = old.get(
            field.name, EditField(name=field.name, label=field.label, sort=field.sort)
        )
        if _text_of(earlier) == _text_of(field):
            continue
        read = (_read(earlier), _read(field))
        pieces = word_by_word(
            *(read if read[0] != read[1] else (_text_of(earlier), _text_of(field)))
        )
        found.append(FieldChange(name=field.name, label=field.label, pieces=pieces))
    return tuple(found)


def word_by_word(before: str, after: str) -> tuple[Piece, ...]:
    """Return the pieces that lead from one text to the other.

    They are compared line by line first, then by words where lines were replaced.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    pieces: list[Piece] = []
    room = _Room()
    for old_lines, new_lines, same in _blocks(old, new, most=MOST_LINES, room=room):
        if same or not old_lines or not new_lines:
            pieces += _plain("".join(old_lines), "".join(new_lines), same=same)
            continue
        words = TOKEN.findall("".join(old_lines)), TOKEN.findall("".join(new_lines))
        for went, came, stayed in _blocks(*words, most=MOST_TOKENS, room=room):
            pieces += _plain("".join(went), "".join(came), same=stayed)
    return tuple(_join_pieces(pieces))


def _blocks(
    old: Sequence[str], new: Sequence[str], *, most: int, room: "_Room"
) -> Iterator[tuple[Sequence[str], Sequence[str], bool]]:
    try:
        if max(len(old), len(new)) > most:
            raise _TooMuch
        found = _Matcher(old, new, room).get_opcodes()
    except _TooMuch:
        yield old, new, old == new
        return
    for tag, i, j, k, m in found:
        yield old[i:j], new[k:m], tag == "equal"


class _TooMuch(Exception):
    """Two texts that would take too long to compare."""


@dataclass(kw_only=True)
class _Room:
    """The pairs that one comparison may still look at."""

    pairs: int = MOST_PAIRS


class _Matcher(SequenceMatcher[str]):
    """A matcher that counts the pairs before it looks at them; it raises _TooMuch."""

    def __init__(self, old: Sequence[str], new: Sequence[str], room: _Room) -> None:
        self._old, self._counts, self._room = old, Counter(new), room
        super().__init__(None, old, new, autojunk=False)

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        self._room.pairs -= sum(self._counts[each] for each in self._old[alo:ahi])
        if self._room.pairs < 0:
            raise _TooMuch
        return super().find_longest_match(alo, ahi, blo, bhi)


def _plain(before: str, after: str, *, same: bool) -> list[Piece]:
    if same:
        return [Piece(sort="same", text=after)]
    both = (Piece(sort="removed", text=before), Piece(sort="added", text=after))
    return [piece for piece in both if piece.text]


def _join_pieces(pieces: Sequence[Piece]) -> Iterator[Piece]:
    waiting: Piece | None = None
    for piece in pieces:
        if waiting is not None and waiting.sort == piece.sort:
            waiting = Piece(sort=piece.sort, text=waiting.text + piece.text)
            continue
        if waiting is not None:
            yield waiting
        waiting = piece
    if waiting is not None:
        yield waiting


def _text_of(field: EditField) -> str:
    return field.value + "".join(
        f"{file.name} ({file.type}, sha256 {file.sha256})\n" for file in field.files
    )


def _read(field: EditField) -> str:
    return field.reading or _text_of(field)


def fields_of(action: PendingAction, number: int) -> tuple[EditField, ...]:
    """Return the editable fields of a revision.

    It is empty if the kind cannot be edited or the content has been purged.
    """
    kind = get_kind(action.kind)
    revision = action.revisions.filter(number=number).first()
    return kind.fields(revision.payload) if revision and revision.payload else ()


def find_changes(action: PendingAction, before: int, after: int) -> tuple[FieldChange, ...]:
    """Return how one revision differs from another; 1 is the proposal."""
    return compare_fields(fields_of(action, before), fields_of(action, after))


def describe_changes(action: PendingAction, revision: int) -> list[Change]:
    """Return what reviewers changed up to a revision: field, value before, value after."""
    if revision == 1:
        return []
    return [_describe(change) for change in find_changes(action, 1, revision)]


def _describe(change: FieldChange) -> Change:
    before = "".join(piece.text for piece in change.pieces if piece.sort != "added")
    after = "".join(piece.text for piece in change.pieces if piece.sort != "removed")
    members: Change = {
        "field": change.name,
        "before": before[:MOST_CHARACTERS],
        "after": after[:MOST_CHARACTERS],
    }
    if max(len(before), len(after)) > MOST_CHARACTERS:
        members["truncated"] = True
    return members
