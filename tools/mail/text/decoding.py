"""The text of foreign bytes: a label is a claim, and a wrong one loses no message. Pure."""

import re
from contextlib import suppress

from tools.mail.text.charsets import codec_of, is_ascii
from tools.mail.text.detection import detect_codec, has_shifts
from tools.mail.text.japanese import from_euc_jp, from_iso_2022_jp

REPLACED = "\ufffd"
# Control characters show nothing, and can end a text or hide a part of it. Lone surrogates cannot
# be written as UTF-8.
CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000)), REPLACED) | {
    ord("\t"): "\t",
    ord("\n"): "\n",
    ord("\r"): "\n",
    ord("\v"): "\n",
    ord("\f"): "\n",
}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf_8"),
    (b"\xff\xfe", "utf_16_le"),
    (b"\xfe\xff", "utf_16_be"),
)
# More bytes than a cut character can leave: three, and quoted-printable may leave the last as "=8".
CUT_CHARACTER = 6
# Dovecot writes NUL as 0x80. In windows-1252 that is €, which has a number or a blank beside it.
NUL_OF_SERVER = re.compile(rb"(?<![\x80-\xff0-9 ])\x80(?![\x80-\xff0-9 ])|\x80{2,}+")
NUL_IN_WORD = re.compile(rb"(?<=[A-Za-z])\x80(?=[A-Za-z])|\x80{2,}+")
# Charsets with one byte for a letter: in them, valid UTF-8 is a row of unlikely signs.
SINGLE_BYTES = ("cp12", "iso8859", "koi8", "mac_")
CHANCE_LETTERS = 3
# In charsets with more bytes, twice as many letters of UTF-8 are valid by chance.
CHANCE_LETTERS_OF_EAST_ASIA = 6
EAST_ASIA = ("gb18030", "big5", "cp949", "cp932", "euc_j", "johab")
# Programs of Windows write its own charsets under these labels, which have controls at some places
# of letters. Dovecot writes NUL as 0x80.
OF_WINDOWS = {
    "iso8859_2": "cp1250", "iso8859_4": "cp1257", "iso8859_6": "cp1256", "iso8859_7": "cp1253",
    "iso8859_8": "cp1255", "iso8859_13": "cp1257", "iso8859_15": "cp1252",
}  # fmt: skip
ONLY_OF_WINDOWS = re.compile(rb"[\x81-\x9f]")
# Words of Western languages have letters of ASCII too.
FOREIGN_WORD = re.compile(rb"[\x80-\xff]{4,}+")
FOREIGN_BYTES = 12
WESTERN = ("cp1252", "iso8859_15")
WIDE_BYTES = 400  # that are looked at for UTF-16 without a byte order mark
PAGE_HEAD = 4_096
COMMENT = re.compile(rb"<!--(?:(?!-->)[\s\S])*+(?:-->)?")
META = re.compile(
    rb"""(?i)<(?:meta\b[^>]{0,400}?\bcharset|\?xml\b[^>]{0,100}?\bencoding)\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})"""
)


def text_of(content: bytes, label: str, *, whole: bool = True, is_page: bool = False) -> str:
    """Return the text of content with this charset label, with line ends as \\n.

    Control characters become U+FFFD. If the content is not `whole`, its last character may be cut,
    and only that one is lost. A page may name its charset itself.
    """
    return without_controls(_read(content, label, whole=whole, is_page=is_page))


def without_controls(text: str) -> str:
    """Return the text with line ends as \\n, and U+FFFD for each control character."""
    text = text.replace("\r\n", "\n")
    return text if CONTROL.search(text) is None else text.translate(CONTROLS)


def read_as(content: bytes, codec: str, *, whole: bool = True) -> str | None:
    """Return the text in this codec, one of `tools.mail.text.charsets`, or None if it is in
    another.
    """
    for left_out in range(1 if whole else CUT_CHARACTER):
        with suppress(UnicodeError):
            return _decode(content[: len(content) - left_out], codec, "strict")
    return None


def _read(content: bytes, label: str, *, whole: bool, is_page: bool) -> str:
    codecs = _list_codecs(content, label, is_page=is_page)
    mark, marked = next(
        ((mark, codec) for mark, codec in BYTE_ORDER_MARKS if content.startswith(mark)), (b"", "")
    )
    if marked and not codecs[0].startswith("utf_32"):
        content, codecs = content[len(mark) :], [marked]
    for codec in codecs:
        text = read_as(content, codec, whole=whole)
        if text is not None:
            return text
    without_nul = NUL_OF_SERVER.sub(REPLACED.encode(), content)
    if "utf_8" in codecs and (text := read_as(without_nul, "utf_8", whole=whole)) is not None:
        return text
    if "cp1252" in codecs:
        return _decode(content, "cp1252", "replace")
    damaged = _decode(content, codecs[0], "replace")
    if _is_mostly_read(damaged):
        return damaged
    return _decode(content, detect_codec(content), "replace")


def _list_codecs(content: bytes, label: str, *, is_page: bool) -> list[str]:
    """Return the codecs that the content may be in, the most probable first."""
    header = None if is_ascii(label) else codec_of(label)
    is_plain = content.isascii() and b"\0" not in content
    if header and is_plain and header.startswith(("utf_16", "utf_32")):
        header = "utf_8"
    if header in WESTERN and _is_foreign(content):
        return ["utf_8", detect_codec(content), header]
    if header in OF_WINDOWS and ONLY_OF_WINDOWS.search(content):
        header = OF_WINDOWS[header]
    if header not in (None, "utf_8", "cp1252"):
        is_wrong = _is_surely_utf_8(content, header)
        return ["utf_8", header] if is_wrong else [header, "utf_8"]
    if has_shifts(content):
        return [detect_codec(content), "utf_8"]
    if wide := _of_wide_characters(content):
        return [wide, "utf_8"]
    page = _of_page(content) if is_page and header != "cp1252" else None
    if header is None and page:
        return ["utf_8", "cp1252"] if page == "cp1252" else [page, "utf_8"]
    # Text that is valid UTF-8 by chance is rare, and programs that say iso-8859-1 for UTF-8 are not.
    return list(dict.fromkeys(("utf_8", *filter(None, (header, page)))))


def _is_surely_utf_8(content: bytes, codec: str) -> bool:
    """Return True if the content is UTF-8 with more letters than are valid by chance in the
    codec.
    """
    if codec.startswith(SINGLE_BYTES):
        least = CHANCE_LETTERS
    elif codec.startswith(EAST_ASIA):
        least = CHANCE_LETTERS_OF_EAST_ASIA
    else:
        return False
    text = read_as(content, "utf_8") or ""
    return sum(not character.isascii() for character in text) >= least


def _of_wide_characters(content: bytes) -> str | None:
    """Return UTF-16 with the order of its bytes if every other byte is NUL, as in Latin letters."""
    head = content[:WIDE_BYTES]
    first, second = head[::2].count(0), head[1::2].count(0)
    most = len(head) // 2
    if most < 2 or len(content) % 2 or min(first, second) > most // 20:
        return None
    if max(first, second) < 0.7 * most:
        return None
    return "utf_16_be" if first > second else "utf_16_le"


def _is_foreign(content: bytes) -> bool:
    """Return True if words consist of bytes outside ASCII, as in no Western language."""
    words = (word[0] for word in FOREIGN_WORD.finditer(content[: WIDE_BYTES * 10]))
    return sum(len(word) for word in words if len(set(word)) >= CHANCE_LETTERS) >= FOREIGN_BYTES


def _of_page(content: bytes) -> str | None:
    """Return the codec that a page names in its head. It is ASCII, so it cannot name UTF-16."""
    found = META.search(COMMENT.sub(b"", content[:PAGE_HEAD]))
    codec = codec_of(found[1].decode("ascii", "replace")) if found else None
    return "utf_8" if codec and codec.startswith(("utf_16", "utf_32")) else codec


def _is_mostly_read(text: str) -> bool:
    lost = text.count(REPLACED)
    return 2 * lost <= sum(not character.isascii() for character in text) - lost


def _decode(content: bytes, codec: str, errors: str) -> str:
    if codec == "iso2022_jp":
        return from_iso_2022_jp(content, errors)
    if codec == "euc_jp":
        return from_euc_jp(content, errors)
    if codec == "cp1252":
        return REPLACED.join(piece.decode(codec, errors) for piece in NUL_IN_WORD.split(content))
    try:
        return content.decode(codec, errors)
    except UnicodeDecodeError:
        raise
    except (UnicodeError, ValueError) as error:  # some codecs of Python raise a bare UnicodeError
        if errors == "strict":
            raise UnicodeError(str(error)) from None
        return content.decode("cp1252", errors)
