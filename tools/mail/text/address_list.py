"""The addresses of a header as programs really write them. Pure, linear.

The standard library takes `a@b.example <c@d.example>` for two addresses, and the name in
`Holm, Mira <mira@b.example>` for one. Mail programs read one address each, the one in brackets.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

AROUND_DOT = re.compile(r" ?([.@]) ?")
ROUTE = re.compile(r"^(?:@[^:]*:)+")
SPECIAL = re.compile(r'[\\"(),;:<>\[\]]')
QUOTE_SIGN = re.compile(r'\\.|"', re.DOTALL)
COMMENT_SIGN = re.compile(r"\\.|[()]", re.DOTALL)


@dataclass
class _Entry:
    """One entry while it is read: its words, what is in brackets, its comments, its literal."""

    words: list[str] = field(default_factory=list)
    brackets: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)  # as an address: with quotes, without comments
    comments: list[str] = field(default_factory=list)
    has_brackets: bool = False
    has_at: bool = False
    ends_with: str = ""

    @property
    def name(self) -> str:
        return " ".join("".join(self.words).split())

    def read(self) -> tuple[str, str]:
        """Return the name and the address; an entry without an address has an empty one."""
        comment = " ".join(" ".join(self.comments).split())
        if self.has_brackets:
            address = ROUTE.sub("", _without_blanks("".join(self.brackets)))
            return self.name or comment, address
        bare = " ".join("".join(self.bare).split())
        if not self.has_at or '"' in bare:
            return comment, _without_blanks(bare) if self.has_at else bare
        words = AROUND_DOT.sub(r"\1", bare).split()
        address = next(word for word in words if "@" in word)
        return comment or " ".join(word for word in words if word is not address), address


def parse_addresses(text: str) -> list[tuple[str, str]]:
    """Return (name, address) of each entry; groups are opened, and entries without both left out.

    An entry without `@` before one in brackets is the beginning of its name.
    """
    found: list[tuple[str, str]] = []
    beginning = ""
    for entry in _split(text):
        name, address = entry.read()
        if not entry.has_brackets and "@" not in address and entry.ends_with == "," and address:
            # A name, or a user of the own server.
            if beginning:
                found.append(("", beginning))
            beginning = address
            continue
        if beginning and entry.has_brackets and name:
            name = f"{beginning}, {name}"
        elif beginning:
            found.append(("", beginning))
        beginning = ""
        if address:
            found.append((name, address))
    return [*found, ("", beginning)] if beginning else found


def _split(text: str) -> Iterator[_Entry]:
    """Yield the entries between commas and semicolons; the name of a group is left out."""
    entry, in_brackets, place = _Entry(), False, 0
    closers = {'"': text.rfind('"'), "(": text.rfind(")"), "[": text.rfind("]")}
    while special := SPECIAL.search(text, place):
        _add(entry, text[place : special.start()], in_brackets)
        place, sign = special.end(), special[0]
        enclosed = READERS[sign](text, place) if closers.get(sign, -1) >= place else None
        if enclosed:
            place = enclosed.end
            if sign == "(":
                entry.comments.append(_unescape(enclosed.content))
            else:
                words = _unescape(enclosed.content) if sign == '"' else None
                whole = f"{sign}{enclosed.content}{text[place - 1]}"
                _add(entry, whole, in_brackets, words=words)
        elif sign in closers:
            closers[sign] = -1  # it is not closed: the next ones are not either
        elif sign == "<":
            in_brackets, entry.has_brackets, entry.brackets = True, True, []
        elif sign == ">":
            in_brackets = False
        elif sign in ",;" and not (
            in_brackets and entry.brackets[:1] and entry.brackets[0][:1] == "@"
        ):
            entry.ends_with = sign
            yield entry
            entry, in_brackets = _Entry(), False
        elif sign == ":" and not in_brackets and not entry.has_at:
            entry = _Entry()
        else:
            _add(entry, sign, in_brackets)
    _add(entry, text[place:], in_brackets)
    yield entry


def _add(entry: _Entry, text: str, in_brackets: bool, *, words: str | None = None) -> None:
    if in_brackets:
        entry.brackets.append(text)
    else:
        entry.bare.append(text)
        entry.words.append(text if words is None else words)
        entry.has_at = entry.has_at or "@" in text


@dataclass(frozen=True)
class _Enclosed:
    content: str
    end: int


def _read_quoted(text: str, place: int) -> _Enclosed | None:
    for sign in QUOTE_SIGN.finditer(text, place):
        if sign[0] == '"':
            return _Enclosed(text[place : sign.start()], sign.end())
    return None


def _read_comment(text: str, place: int) -> _Enclosed | None:
    start, depth = place, 1
    for sign in COMMENT_SIGN.finditer(text, place):
        depth += {"(": 1, ")": -1}.get(sign[0], 0)
        if not depth:
            return _Enclosed(text[start : sign.start()], sign.end())
    return None


def _read_literal(text: str, place: int) -> _Enclosed | None:
    end = text.find("]", place)
    return _Enclosed(text[place:end], end + 1) if end >= 0 else None


READERS: dict[str, Callable[[str, int], _Enclosed | None]] = {
    '"': _read_quoted,
    "(": _read_comment,
    "[": _read_literal,
}


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _without_blanks(address: str) -> str:
    """Return the address without white space; inside quotes one blank of it is left."""
    pieces = address.split('"')
    return '"'.join(
        (" " if place % 2 else "").join(piece.split()) for place, piece in enumerate(pieces)
    )
