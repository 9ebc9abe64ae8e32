"""Files inside a plain text, as programs wrote them before MIME. Pure, linear."""

import binascii
import re

# POSIX uuencode: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/uuencode.html
BEGIN = re.compile(r"begin [0-7]{3,4} (\S.{0,200})")
MOST_FILES = 20


def take_files(text: str) -> tuple[str, list[tuple[str, bytes]]]:
    """Return a text without its uuencoded files, and their names and contents."""
    if "\nbegin " not in f"\n{text}":
        return text, []
    kept: list[str] = []
    found: list[tuple[str, bytes]] = []
    rows = text.split("\n")
    place = 0
    while place < len(rows):
        head = BEGIN.fullmatch(rows[place]) if len(found) < MOST_FILES else None
        file = _decode(rows, place + 1) if head else None
        if head and file:
            content, place = file
            found.append((head[1].strip(), content))
        else:
            kept.append(rows[place])
            place += 1
    return "\n".join(kept), found


def _decode(rows: list[str], place: int) -> tuple[bytes, int] | None:
    """Return the bytes of a file whose first line is here, and the place after its end."""
    content = bytearray()
    for number in range(place, len(rows)):
        if rows[number] == "end":
            return (bytes(content), number + 1) if content else None
        try:
            content += binascii.a2b_uu(rows[number].encode("ascii"))
        except (binascii.Error, UnicodeEncodeError):
            return None
    return None
