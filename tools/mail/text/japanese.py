"""ISO-2022-JP and EUC-JP as browsers and mail programs read them. Pure, linear.

Python's codecs lack the signs that NEC added, such as ① and ㈱, and half-width katakana. Both are
common in real mail. Shift_JIS (`cp932`) has them, at places that are computed from their rows.
"""

import re

ESCAPE = re.compile(rb"\x1b(\([A-Z]|\$[@B]|\$\([A-Z])")
PAIR = re.compile(rb"[!-~]{2}")
EUC_CHARACTER = re.compile(rb"\x8f[\xa1-\xfe]{2}|\x8e[\xa1-\xfe]|[\xa1-\xfe]{2}")
LOW_BITS = bytes(byte & 0x7F for byte in range(256))
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


def from_euc_jp(content: bytes, errors: str = "strict") -> str:
    """Return the text. Raises UnicodeDecodeError if `errors` is "strict"."""
    try:
        return content.decode("euc_jp")
    except UnicodeDecodeError:
        return EUC_CHARACTER.sub(_from_euc, content).decode("cp932", errors)


def _from_euc(character: re.Match[bytes]) -> bytes:
    found = character[0]
    if len(found) == 2 and found[0] != 0x8E:
        return _in_shift_jis(found.translate(LOW_BITS))
    return found[1:] if found[0] == 0x8E else b"\xff"  # Shift_JIS has no supplement


def _decode(mode: bytes, piece: bytes, errors: str) -> str:
    if mode in TWO_BYTES:
        return PAIR.sub(lambda pair: _in_shift_jis(pair[0]), piece).decode("cp932", errors)
    if mode == KATAKANA:
        return piece.translate(HIGH_BIT).decode("cp932", errors)
    if mode == SUPPLEMENT:
        marked = PAIR.sub(lambda pair: b"\x8f" + pair[0].translate(HIGH_BIT), piece)
        return marked.decode("euc_jp", errors)
    return piece.decode("ascii", errors)


def _in_shift_jis(pair: bytes) -> bytes:
    row, cell = pair
    first = (row + 1) // 2 + (0x70 if row < 0x5F else 0xB0)
    second = cell + 0x7E if row % 2 == 0 else cell + 0x1F + (cell >= 0x60)
    return bytes((first, second))
