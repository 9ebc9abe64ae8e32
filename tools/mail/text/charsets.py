"""The charsets for reading mail: those that mail programs write, and no other codec of Python.

`punycode` takes quadratic time, `unicode_escape` and `idna` are not charsets, and some names load
code. A label that is not listed counts as missing.
"""

from encodings.aliases import aliases

CODECS = frozenset(
    """
    ascii big5 big5hkscs cp437 cp850 cp852 cp855 cp857 cp858 cp860 cp861 cp862 cp863 cp864 cp865 cp866 cp869 cp874
    cp932 cp949 cp950 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 euc_jp euc_jis_2004
    euc_jisx0213 euc_kr gb2312 gb18030 gbk hz iso2022_jp iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3
    iso2022_jp_ext iso2022_kr iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6 iso8859_7 iso8859_8 iso8859_9
    iso8859_10 iso8859_11 iso8859_13 iso8859_14 iso8859_15 iso8859_16 johab koi8_r koi8_t koi8_u kz1048 latin_1
    mac_cyrillic mac_greek mac_iceland mac_latin2 mac_roman mac_turkish ptcp154 shift_jis shift_jis_2004
    shift_jisx0213 tis_620 utf_8 utf_8_sig utf_16 utf_16_le utf_16_be utf_32 utf_32_le utf_32_be
    """.split()
)
# Other names that mail programs use.
ALSO = {
    "x_sjis": "shift_jis",
    "x_euc_jp": "euc_jp",
    "x_gbk": "gbk",
    "windows_874": "cp874",
    "utf8mb4": "utf_8",
    "unicode_1_1_utf_8": "utf_8",
    "iso_8859_8_i": "iso8859_8",
    "iso_8859_8_e": "iso8859_8",
    "x_mac_roman": "mac_roman",
    "iso_8859_6_i": "iso8859_6",
    "windows_31j": "cp932",
    "mac": "mac_roman",
    "ks_c_5601": "euc_kr",
    "x_windows_949": "cp949",
    "x_big5": "big5",
    "x_cp1252": "cp1252",
}
_BY_LABEL = {codec: codec for codec in CODECS}
_BY_LABEL |= {label: codec for label, codec in aliases.items() if codec in CODECS} | ALSO
LONGEST_LABEL = 40


def codec_of(label: str) -> str | None:
    """Return Python's name of the charset, or None if mail is not read in it."""
    if len(label) > LONGEST_LABEL:
        return None
    plain = label.strip().strip("\"'").lower()
    for mark in "-. :":
        plain = plain.replace(mark, "_")
    return _BY_LABEL.get(plain) or _BY_LABEL.get(plain.replace("iso_8859_", "iso8859_"))
