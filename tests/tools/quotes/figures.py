"""The figures of folding: how much of a quote is folded, and whether any answer is lost."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.tools.quotes.corpus import Letter
from tools.mail.message.page_text import make_readable


@dataclass(kw_only=True)
class Figures:
    """Numbers of characters, and of mails."""

    mails: int = 0
    perfect: int = 0
    own: int = 0
    own_lost: int = 0
    quoted: int = 0
    quoted_folded: int = 0
    signature: int = 0
    signature_folded: int = 0

    @property
    def precision(self) -> float:
        return self.quoted_folded / ((self.quoted_folded + self.own_lost) or 1)

    @property
    def recall(self) -> float:
        return self.quoted_folded / (self.quoted or 1)

    @property
    def signature_recall(self) -> float:
        return self.signature_folded / (self.signature or 1)


def read_folded(letter: Letter) -> str:
    """Return what mailhub shows of a mail."""
    message: Any = letter  # it has what the reader asks a message for
    return make_readable(message, quoted=False).text


def measure(letters: Iterable[Letter], read: Callable[[Letter], str]) -> Figures:
    """Return the figures of `read`, which returns the text that stays of a mail."""
    figures = Figures()
    for letter in letters:
        kept = _bare(read(letter))
        lost = [row for row in letter.own if _bare(row) not in kept]
        left = [row for row in letter.quoted if _bare(row) in kept]
        signs = [row for row in letter.signature if _bare(row) in kept]
        figures.mails += 1
        figures.perfect += not lost and not left
        figures.own += _size(letter.own)
        figures.own_lost += _size(lost)
        figures.quoted += _size(letter.quoted)
        figures.quoted_folded += _size(letter.quoted) - _size(left)
        figures.signature += _size(letter.signature)
        figures.signature_folded += _size(letter.signature) - _size(signs)
    return figures


def failures(letter: Letter, kept: str) -> dict[str, list[str]]:
    """Return the sentences of a mail that are not where they should be."""
    kept = _bare(kept)
    found = {
        "lost": [row for row in letter.own if _bare(row) not in kept],
        "left": [row for row in letter.quoted if _bare(row) in kept],
        "signature": [row for row in letter.signature if _bare(row) in kept],
    }
    return {name: rows for name, rows in found.items() if rows}


def _bare(text: str) -> str:
    """Return the text without white space, because programs wrap lines."""
    return "".join(text.split())


def _size(rows: Iterable[str]) -> int:
    return sum(map(len, rows))
