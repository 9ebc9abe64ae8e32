"""Parameters of Content-Type and Content-Disposition as real programs write them. Pure, linear.

Values may be raw bytes, encoded words, quoted or not, and split or encoded by RFC 2231.
"""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_to_bytes

from tools.mail.message import lenient
from tools.mail.text.charsets import codec_of
from tools.mail.text.decoding import text_of, without_controls

TYPE = re.compile(rb"[\w!#$&^.+-]{1,100}/[\w!#$&^.+-]{1,100}", re.ASCII)
WORD = re.compile(rb"[\w-]{1,40}", re.ASCII)
PARAMETER = re.compile(rb""";\s*+([^\s=;"]++)\s*+=\s*+(?:"((?:[^"\\]|\\[\s\S])*+)"?|([^;]*+))""")
ESCAPED = re.compile(rb'\\(["\\])')  # other backslashes belong to the path of a Windows program
PIECE = re.compile(r"[0-9]{1,4}\*?")
MOST_BYTES = 64 * 1024  # of one header
MOST = 1_000


def media_type(value: bytes) -> str:
    """Return the type that a Content-Type names, in lower case, or an empty string."""
    found = TYPE.match(value.partition(b";")[0].strip())
    return found[0].decode("ascii").lower() if found else ""


def first_word(value: bytes) -> str:
    """Return the word before the parameters, such as `attachment` or `base64`, in lower case."""
    found = WORD.match(value.strip())
    return found[0].decode("ascii").lower() if found else ""


def parameters(value: bytes, left: Iterator[int]) -> dict[str, str]:
    """Return the parameters of a header by name in lower case.

    Their charset is detected while numbers are left in `left`.
    """
    found = []
    for match in PARAMETER.finditer(value[:MOST_BYTES]):
        quoted = match[2]
        content = match[3].strip() if quoted is None else ESCAPED.sub(rb"\1", quoted)
        found.append((match[1], content))
        if len(found) == MOST:
            break
    return join(found, left)


def join(items: Iterable[tuple[bytes, bytes]], left: Iterator[int]) -> dict[str, str]:
    """Return parameters by name; values split or encoded by RFC 2231 (`filename*0*=utf-8''…`) are
    joined.
    """
    found: dict[str, str] = {}
    pieces: dict[str, list[tuple[int, bytes]]] = {}
    charsets: dict[str, str] = {}
    for raw_name, content in items:
        name = without_controls(raw_name.decode("ascii", "replace")).lower()
        base, star, place = name.partition("*")
        if not star:
            found.setdefault(base, lenient.decode_raw(content, left))
            continue
        number = int(place.rstrip("*") or 0) if PIECE.fullmatch(place) else 0
        encoded = place == "" or place.endswith("*")
        if encoded and number == 0 and content.count(b"'") >= 2:
            claimed, _, content = content.split(b"'", 2)
            charsets[base] = without_controls(claimed.decode("ascii", "replace"))
        pieces.setdefault(base, []).append(
            (number, unquote_to_bytes(content) if encoded else content)
        )
    for base, parts in pieces.items():
        content = b"".join(piece for _, piece in sorted(parts))
        label = charsets.get(base, "")
        found[base] = (
            text_of(content, label) if codec_of(label) else lenient.decode_raw(content, left)
        )
    return found
