"""The charsets for reading mail: those that mail programs write, and no other codec of Python.

A label means what browsers read in it (https://encoding.spec.whatwg.org/#names-and-labels):
`iso-8859-1` is windows-1252, `gb2312` is gb18030. `punycode` takes quadratic time, `unicode_escape`
and `idna` are not charsets, and some names load code. A label that is not listed counts as missing.
"""

import re
from encodings.aliases import aliases
from functools import lru_cache

import webencodings

# Charsets of old mail that browsers no longer read.
MAIL_ONLY = frozenset(
    """
    cp437 cp850 cp852 cp855 cp857 cp858 cp860 cp861 cp862 cp863 cp864 cp865 cp869 euc_jis_2004 euc_jisx0213 hz
    iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3 iso2022_jp_ext iso2022_kr johab koi8_t kz1048
    mac_greek mac_iceland mac_latin2 mac_turkish ptcp154 shift_jis_2004 shift_jisx0213 utf_7 utf_32 utf_32_le utf_32_be
    """.split()
)
# Python's narrow codecs, and the wider ones that the standard reads in their place.
WIDER = {
    "ascii": "cp1252",
    "latin_1": "cp1252",
    "iso8859_9": "cp1254",
    "iso8859_11": "cp874",
    "tis_620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "cp950": "big5hkscs",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "utf_8_sig": "utf_8",
}
# The other codecs that the standard names; Python has more names for them.
OF_BROWSERS = frozenset(
    """
    big5hkscs cp866 cp874 cp932 cp949 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 euc_jp gb18030
    iso2022_jp iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6 iso8859_7 iso8859_8 iso8859_10 iso8859_13 iso8859_14
    iso8859_15 iso8859_16 koi8_r koi8_u mac_cyrillic mac_roman utf_8 utf_16 utf_16_le utf_16_be
    """.split()
)
# Other names that mail programs use.
ALSO = {
    "utf8mb4": "utf_8",
    "ks_c_5601": "cp949",
    "x_windows_949": "cp949",
    "x_big5": "big5hkscs",
    "x_euc_cn": "gb18030",
    "unicode_2_0_utf_7": "utf_7",
    "x_unicode_2_0_utf_7": "utf_7",
    "csunicode11utf7": "utf_7",
    "iso_2022_jp_ms": "iso2022_jp",
    "cp50220": "iso2022_jp",
    "cp50221": "iso2022_jp",
    "eucjp_ms": "euc_jp",
}
CODECS = MAIL_ONLY | OF_BROWSERS | frozenset(WIDER)
_BY_LABEL = {codec: codec for codec in CODECS}
_BY_LABEL |= {label: codec for label, codec in aliases.items() if codec in CODECS} | ALSO
NOT_READ = ("replacement", "x-user-defined")  # of the standard: a safeguard, and a private charset
ASCII = frozenset("us-ascii ascii us ansi_x3.4-1968 iso-ir-6 iso646-us csascii".split())
# A code page by its number: `win-1251`, `x-cp-1251`, `windows1251`.
CODE_PAGE = re.compile(r"(?:x-)?(?:windows|win|cp|ms|ibm)[-_ ]?([0-9]{3,4})")
LONGEST_LABEL = 40


@lru_cache(maxsize=64)
def codec_of(label: str) -> str | None:
    """Return Python's name of the charset, or None if mail is not read in it."""
    plain = _plain(label)
    if not plain.isascii() or len(plain) > LONGEST_LABEL:
        return None
    known = webencodings.lookup(plain)
    if known is not None and known.name not in NOT_READ:
        codec: str | None = str(known.codec_info.name).replace("-", "_")
    else:
        codec = _of_python(plain)
    return WIDER.get(codec, codec) if codec else None


def is_ascii(label: str) -> bool:
    """Return True for a label that says nothing about bytes outside ASCII."""
    return _plain(label) in ASCII


def _plain(label: str) -> str:
    # RFC 2231 puts a language after an asterisk.
    return label.partition("*")[0].strip(" \t\r\n\"';,").lower()


def _of_python(plain: str) -> str | None:
    numbered = CODE_PAGE.fullmatch(plain)
    if numbered:
        plain = f"cp{numbered[1]}"
    for mark in "-. :":
        plain = plain.replace(mark, "_")
    return _BY_LABEL.get(plain) or _BY_LABEL.get(plain.replace("iso_8859_", "iso8859_"))
