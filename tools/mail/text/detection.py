"""The charset of bytes that name none, or a wrong one. Pure.

docs/dev/charsets.md compares libraries on texts of 35 languages.
"""

import re

from tools.mail.text.charsets import codec_of

DEFAULT = "cp1252"
# The charsets that mail programs write. Fewer candidates make short texts more certain.
CANDIDATES = """
    cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp874 koi8-r koi8-u iso8859-2 iso8859-5 iso8859-7
    cp932 euc-jp gb18030 big5hkscs cp949
""".split()
SAMPLE_BYTES = 4_000
NOT_ASCII = re.compile(rb"[\x80-\xff]")
FEWEST = 2  # one letter decides nothing
LIKELIER = "cp1254"  # Turkish and Icelandic are often equally probable, and differ in six letters
# A line, or the text between two tags.
PIECE = re.compile(rb"[^\r\n<>]+")
# Charsets that switch to two bytes for a letter, all of them ASCII.
ESCAPE, KOREAN = b"\x1b$", b"\x1b$)C"
CHINESE = re.compile(rb"~\{(?:[!-w][!-~])+~\}")  # HZ, RFC 1843
# Signs of DEFAULT that are the only ones in many texts, and those of them that may follow a letter.
SIGNS = frozenset("\xa0“”„‘’‚–—…•€«»§°©®™×÷‰†‡‹›£½¼¾´·±¡¿ªºµ")
AFTER_LETTERS = frozenset("”“’»›…™®°")


def detect_codec(content: bytes) -> str:
    """Return Python's name of the charset that most probably has these bytes."""
    if content.isascii():
        return _detect_shifts(content)
    sample = _sample(content)
    if len(NOT_ASCII.findall(sample)) < FEWEST or _has_only_signs(sample):
        return DEFAULT
    import chardet  # it and its tables take 36 MB and 0.2 seconds, which most mails do not need

    found = chardet.detect_all(
        sample, ignore_threshold=True, include_encodings=CANDIDATES, compat_names=False
    )
    best = max(found, key=lambda each: (each["confidence"], each["encoding"] == LIKELIER))
    return codec_of(best["encoding"] or DEFAULT) or DEFAULT


def has_shifts(content: bytes) -> bool:
    """Return True if ASCII bytes switch to another charset."""
    return content.isascii() and (ESCAPE in content or CHINESE.search(content) is not None)


def _detect_shifts(content: bytes) -> str:
    if ESCAPE in content:
        return "iso2022_kr" if KOREAN in content else "iso2022_jp"
    return "hz" if has_shifts(content) else DEFAULT


def _sample(content: bytes) -> bytes:
    """Return the first pieces with bytes outside ASCII: the others would vote for English."""
    sample = bytearray()
    for piece in PIECE.finditer(content):
        if not piece[0].isascii():
            sample += piece[0][: SAMPLE_BYTES - len(sample)] + b"\n"
            if len(sample) >= SAMPLE_BYTES:
                break
    return bytes(sample)


def _has_only_signs(sample: bytes) -> bool:
    """Return True if everything outside ASCII is a sign of DEFAULT in a place where signs are."""
    text = sample.decode(DEFAULT, "replace")
    return all(
        _is_sign(before, character, after)
        for before, character, after in zip(f" {text}", text, f"{text[1:]} ", strict=False)
        if not character.isascii()
    )


def _is_sign(before: str, character: str, after: str) -> bool:
    if character not in SIGNS or (before.isalpha() and character not in AFTER_LETTERS):
        return before == "n" and character == "º"
    if after.isalpha():
        return character in "“„‘«‹©•" or character in "’µ"
    return True
