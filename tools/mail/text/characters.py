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
INFORMATION = "\u2139"  # a letter by its category, and an emoji
KEYCAP = "\u20e3"
FLAG, FLAG_ENDS = "\U0001f3f4", "\U000e007f"
# The flags that Unicode recommends for interchange, and regional ones that programs offer; any
# other sequence could spell a text.
FLAGS = frozenset(
    FLAG + "".join(chr(0xE0000 + ord(c)) for c in name) + FLAG_ENDS
    for name in "gbeng gbsct gbwls gbnir usca ustx caqc debv esct espv frbre".split()
)
FLAG_SEQUENCE = re.compile(FLAG + "[\U000e0030-\U000e007a]{4,5}" + FLAG_ENDS)
TAGS = 0xE0000
TAG_LETTERS = frozenset(chr(TAGS + letter) for letter in range(0x20, 0x7F))
# Scripts in which a joiner between two letters changes their shape: Arabic and related scripts, and
# those of India.
JOINING = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17ff\u1800-\u18af\ufb50-\ufdff\ufe70-\ufefc]"
)
# Scripts without blanks between words: a zero-width space marks where a line may break.
WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
ZERO_WIDTH_SPACE, BYTE_ORDER_MARK = "\u200b", "\ufeff"
MONGOLIAN = re.compile("[\u1800-\u180a\u1810-\u18af]")
HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def without_invisible(text: str) -> str:
    """Return the text without the invisible characters that do not change the visible text."""
    if INVISIBLE.search(text) is None:
        return text
    misplaced = set(_find_misplaced(text))
    return "".join(character for place, character in enumerate(text) if place not in misplaced)


def invisible_in(text: str) -> tuple[int, int]:
    """Return the numbers of misplaced invisible characters: (left over by programs, others)."""
    if INVISIBLE.search(text) is None:
        return 0, 0
    found = [
        text[place]
        for place in _find_misplaced(text)
        if text[place] != SOFT_HYPHEN and not _is_filler(text, place)
    ]
    left_over = sum(character in LEFT_OVER for character in found)
    return left_over, len(found) - left_over


def spell_tags(text: str) -> str:
    """Return the sentence that misplaced tag characters spell; each encodes one ASCII character."""
    if INVISIBLE.search(text) is None:
        return ""
    return "".join(
        chr(ord(text[place]) - TAGS)
        for place in _find_misplaced(text)
        if text[place] in TAG_LETTERS
    ).strip()


def _find_misplaced(text: str) -> Iterator[int]:
    flag_until = 0
    for match in INVISIBLE.finditer(text):
        place = match.start()
        if place < flag_until:
            continue
        flag = FLAG_SEQUENCE.match(text, place - 1) if place else None
        if flag and flag[0] in FLAGS:
            flag_until = flag.end()
            continue
        if not _belongs(text, place):
            yield place


def _belongs(text: str, place: int) -> bool:
    character = text[place]
    before, after = _around(text, place)
    if character in EMOJI_STYLES:
        return _is_pictograph(before) or (after == KEYCAP and before in set("0123456789#*"))
    # At the end of a word, a joiner changes the shape of the last letter.
    if character in JOINERS and JOINING.match(before) and not INVISIBLE.match(after):
        return True
    if character == ZERO_WIDTH_SPACE:
        return bool(WITHOUT_BLANKS.match(before) and WITHOUT_BLANKS.match(after))
    if "\u180b" <= character <= "\u180f":
        return MONGOLIAN.match(before) is not None
    if character == "\u200d":
        return (
            bool(after)
            and _is_pictograph(after)
            and (_is_pictograph(before) or before in (*EMOJI_STYLES, FLAG_ENDS))
        )
    if "\U000e0100" <= character <= "\U000e01ef":
        return HAN.match(before) is not None
    return False


def _is_filler(text: str, place: int) -> bool:
    """Return True for the invisible space at the start of a line, or in a long path.

    Editors write the first in empty paragraphs, documentation the second. Neither is between two
    letters.
    """
    before, after = _around(text, place)
    starts_line = before in ("", "\n", ">") and not INVISIBLE.match(after)
    in_path = before in ("/", "\\", "_", ".", "-") and after.isalnum()
    return text[place] in (ZERO_WIDTH_SPACE, BYTE_ORDER_MARK) and (starts_line or in_path)


def _around(text: str, place: int) -> tuple[str, str]:
    return text[max(place - 1, 0) : place], text[place + 1 : place + 2]


def _is_pictograph(character: str) -> bool:
    """Return True for emoji, their skin tones, and the old symbols that have an emoji style."""
    if not character or character.isascii():
        return False
    return (
        character == INFORMATION
        or "\U0001f000" <= character <= "\U0001faff"
        or unicodedata.category(character)
        in (
            "So",
            "Sk",
            "Sm",
            "Po",
            "Pd",
        )
    )
