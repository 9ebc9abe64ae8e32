"""The signature at the end of a text: names, the line of a device, legal notices. Pure, linear."""

from collections.abc import Sequence

from tools.mail.text import signature_words as words
from tools.mail.text.quote_lines import Line

MOST_PARTS = 6  # a mail program and a company add a few
SIGNATURE_LINES, SIGNATURE_CHARACTERS = 15, 1_000
FEW_LINES, LINE_CHARACTERS = 8, 80  # if its delimiter may be something else
LINES_BELOW = 3  # blank lines among those of a signature


def find_signature(lines: Sequence[Line], begin: int, end: int) -> int:
    """Return the place between `begin` and `end` at which the signature begins; `end` if there is
    none.
    """
    place = end
    for _ in range(MOST_PARTS):
        last = place
        while last > begin and not lines[last - 1].has_words:
            last -= 1
        found = _begin_of_part(lines, begin, last) if last > begin else None
        if found is None:
            break
        place = found
    return place


def _begin_of_part(lines: Sequence[Line], begin: int, end: int) -> int | None:
    """Return the place of the last sign-off before `end`: a device, a legal notice, a signature."""
    last = lines[end - 1]
    if words.names_device(last.text):
        return end - 1
    first = end - 1
    while first > begin and lines[first - 1].text.strip():
        first -= 1
    if words.begins_footer(lines[first].text):
        return first
    if last.signed:
        first = end - 1
        while first > begin and (lines[first - 1].signed or not lines[first - 1].text.strip()):
            first -= 1
        return first if _is_signature(lines[first:end]) else None
    floor = max(begin, end - SIGNATURE_LINES - LINES_BELOW)
    for place in range(end - 2, floor - 1, -1):
        text = lines[place].text.replace("\xa0", " ")
        if text.rstrip() == "--":
            below = lines[place + 1 : end]
            return place if _is_signature(below, sure=text.endswith(" ")) else None
    return None


def _is_signature(lines: Sequence[Line], *, sure: bool = True) -> bool:
    """Return True for a few lines that can be a signature; not `sure`: their delimiter has lost
    its blank, or is another line.
    """
    given = [line.text for line in lines if line.text.strip()]
    if not sure and (len(given) > FEW_LINES or max(map(len, given), default=0) > LINE_CHARACTERS):
        return False
    return (
        len(given) <= SIGNATURE_LINES
        and sum(map(len, given)) <= SIGNATURE_CHARACTERS
        and not any(words.is_afterthought(text) for text in given)
    )
