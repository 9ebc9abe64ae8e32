"""Characters that no font shows, and the few places where they are valid. Pure, linear.

Unicode calls them default-ignorable. A program reads them, a person does not: tags and variation
selectors can spell whole sentences. They stay only where they change the visible text: in emoji, in
flags, in scripts that join their letters, and as one variant of a Han character.
"""

import re
import unicodedata
from collections.abc import Iterator

INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
SOFT_HYPHEN = "\u00ad"  # marks a possible hyphenation: removed, and never counted
# Word processors and web pages leave these in honest text. The other characters have no honest use
# in a wrong place.
LEFT_OVER = "\u200b\u200c\u200d\u2060\ufeff\ufe0e\ufe0f"
JOINERS = "\u200c\u200d"
EMOJI_STYLES = "\ufe0e\ufe0f"
KEYCAP = "\u20e3"
FLAG, FLAG_ENDS = "\U0001f3f4", "\U000e007f"
# The flags that Unicode recommends for interchange; any other sequence could spell a text.
FLAGS = frozenset(
    FLAG + "".join(chr(0xE0000 + ord(c)) for c in name) + FLAG_ENDS
    for name in ("gbeng", "gbsct", "gbwls")
)
FLAG_LENGTH = 7
TAGS = 0xE0000
TAG_LETTERS = frozenset(chr(TAGS + letter) for letter in range(0x20, 0x7F))
# Scripts in which a joiner between two letters changes their shape: Arabic and related scripts, and
# those of India.
JOINING = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17ff\u1800-\u18af\ufb50-\ufdff\ufe70-\ufefc]"
)
HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def without_invisible(text: str) -> str:
    """Return the text without the invisible characters that do not change the visible text."""
    if INVISIBLE.search(text) is None:
        return text
    misplaced = set(_misplaced(text))
    return "".join(character for place, character in enumerate(text) if place not in misplaced)


def invisible_in(text: str) -> tuple[int, int]:
    """Return the numbers of misplaced invisible characters: (left over by programs, others)."""
    if INVISIBLE.search(text) is None:
        return 0, 0
    found = [text[place] for place in _misplaced(text) if text[place] != SOFT_HYPHEN]
    left_over = sum(character in LEFT_OVER for character in found)
    return left_over, len(found) - left_over


def spelled_in(text: str) -> str:
    """Return the sentence that misplaced tag characters spell; each encodes one ASCII character."""
    if INVISIBLE.search(text) is None:
        return ""
    return "".join(
        chr(ord(text[place]) - TAGS) for place in _misplaced(text) if text[place] in TAG_LETTERS
    ).strip()


def _misplaced(text: str) -> Iterator[int]:
    flag_until = 0
    for match in INVISIBLE.finditer(text):
        place = match.start()
        if place < flag_until:
            continue
        if text[place - 1 : place] == FLAG and text[place - 1 : place - 1 + FLAG_LENGTH] in FLAGS:
            flag_until = place - 1 + FLAG_LENGTH
            continue
        if not _belongs(text, place):
            yield place


def _belongs(text: str, place: int) -> bool:
    character = text[place]
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if character in EMOJI_STYLES:
        return _is_pictograph(before) or (after == KEYCAP and before in set("0123456789#*"))
    if character in JOINERS and JOINING.match(before) and JOINING.match(after):
        return True
    if character == "\u200d":
        return (
            bool(after)
            and _is_pictograph(after)
            and (_is_pictograph(before) or before in (*EMOJI_STYLES, FLAG_ENDS))
        )
    if "\U000e0100" <= character <= "\U000e01ef":
        return HAN.match(before) is not None
    return False


def _is_pictograph(character: str) -> bool:
    """Return True for emoji, their skin tones, and the old symbols that have an emoji style."""
    if not character or character.isascii():
        return False
    return "\U0001f000" <= character <= "\U0001faff" or unicodedata.category(character) in (
        "So",
        "Sk",
        "Sm",
        "Po",
        "Pd",
    )
