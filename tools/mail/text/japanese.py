"""ISO-2022-JP as browsers and mail programs read it. Pure, linear.

Python's codec lacks the signs that NEC added, such as ① and ㈱, and half-width katakana. Both are
common in real mail. Shift_JIS (`cp932`) has them, at places that are computed from their rows.
"""

import re

ESCAPE = re.compile(rb"\x1b(\([A-Z]|\$[@B]|\$\([A-Z])")
PAIR = re.compile(rb"[!-~]{2}")
TWO_BYTES = (b"$@", b"$B", b"$(B")
KATAKANA, SUPPLEMENT = b"(I", b"$(D"
HIGH_BIT = bytes(byte | 0x80 if 0x21 <= byte <= 0x7E else byte for byte in range(256))


def from_iso_2022_jp(content: bytes, errors: str = "strict") -> str:
    """Return the text. Raises UnicodeDecodeError if `errors` is "strict"."""
    first, *rest = ESCAPE.split(content)
    text = first.decode("ascii", errors)
    for mode, piece in zip(rest[::2], rest[1::2], strict=True):
        text += _decode(mode, piece, errors)
    return text


def _decode(mode: bytes, piece: bytes, errors: str) -> str:
    if mode in TWO_BYTES:
        return PAIR.sub(_in_shift_jis, piece).decode("cp932", errors)
    if mode == KATAKANA:
        return piece.translate(HIGH_BIT).decode("cp932", errors)
    if mode == SUPPLEMENT:
        marked = PAIR.sub(lambda pair: b"\x8f" + pair[0].translate(HIGH_BIT), piece)
        return marked.decode("euc_jp", errors)
    return piece.decode("ascii", errors)


def _in_shift_jis(pair: re.Match[bytes]) -> bytes:
    row, cell = pair[0]
    first = (row + 1) // 2 + (0x70 if row < 0x5F else 0xB0)
    second = cell + 0x7E if row % 2 == 0 else cell + 0x1F + (cell >= 0x60)
    return bytes((first, second))
