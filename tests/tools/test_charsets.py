"""The text of foreign bytes: labels as browsers read them, pages that name their charset, detection."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.growth import check_growth
from tools.mail.html.clean import clean_html
from tools.mail.message.extract import extract_text
from tools.mail.message.markup import clean_page
from tools.mail.message.page_text import page_text
from tools.mail.text.charsets import CODECS, codec_of
from tools.mail.text.decoding import REPLACED, text_of, without_controls

RUSSIAN = "Здравствуйте, Мария! Счёт за октябрь подпишите до пятницы."
CHINESE = "您好，请查收附件中的发票。谢谢，祝好！"
HEBREW = "שלום, מצורפת החשבונית"


@pytest.mark.parametrize(
    ("label", "content", "text"),
    [
        ("iso-8859-1", b"\x93Hi\x94 \x96 5 \x80", "“Hi” – 5 €"),
        ("latin1", b"it\x92s", "it’s"),
        ("us-ascii", b"it\x92s", "it’s"),
        ("ks_c_5601-1987", "똠방각하".encode("cp949"), "똠방각하"),
        ("euc-kr", "똠방각하".encode("cp949"), "똠방각하"),
        ("gb2312", "镕㐀".encode("gb18030"), "镕㐀"),
        ("GBK", "朱镕基".encode("gbk"), "朱镕基"),
        ("iso-8859-8-i", HEBREW.encode("iso8859-8"), HEBREW),
        ("iso-8859-8-e", HEBREW.encode("iso8859-8"), HEBREW),
        ("x-sjis", "①㈱髙".encode("cp932"), "①㈱髙"),
        ("shift_jis", "①㈱髙～".encode("cp932"), "①㈱髙～"),
        ("big5-hkscs", "香港嘅".encode("big5hkscs"), "香港嘅"),
        ("big5", "嘅".encode("big5hkscs"), "嘅"),
        ("utf-7", b"Gr+APwA3w-e", "Grüße"),
        ("unicode-1-1-utf-7", b"Gr+APwA3w-e", "Grüße"),
        ("iso-2022-jp", b"\x1b$B-!\x1b(B \x1b$B@A5a=q\x1b(B", "① 請求書"),
        ("iso-2022-jp", b"\x1b(I1\x1b(B", "ｱ"),
        ("cp50220", b"\x1b$B-!\x1b(B", "①"),
        ("iso-2022-kr", "안녕".encode("iso2022_kr"), "안녕"),
        ("hz-gb-2312", "发票".encode("hz"), "发票"),
        ("iso-8859-9", "Işık".encode("cp1254"), "Işık"),
        ("tis-620", "สวัสดี".encode("cp874"), "สวัสดี"),
        ("win-1251", RUSSIAN.encode("cp1251"), RUSSIAN),
        ("cp1251", RUSSIAN.encode("cp1251"), RUSSIAN),
        ("x-cp-1251", RUSSIAN.encode("cp1251"), RUSSIAN),
        ("'UTF-8';", b"\xc3\xbc", "ü"),
        ("utf-8*en", b"\xc3\xbc", "ü"),
        ("utf-16", "Grüße".encode("utf-16"), "Grüße"),
        ("utf-16le", "Grüße".encode("utf-16-le"), "Grüße"),
        ("utf-16", b"plain", "plain"),
        ("klingon", b"\xc3\xbc", "ü"),
        ("klingon", RUSSIAN.encode("cp1251"), RUSSIAN),
        ("unknown-8bit", b"\xfc", "ü"),
        ("iso-8859-1", "Größe".encode(), "Größe"),
        ("windows-1251", RUSSIAN.encode(), RUSSIAN),
        ("windows-1251", b"\xd0\xb0", "Р°"),
        ("shift_jis", b"\xc3\xbc" * 3, "ﾃｼ" * 3),
        ("gb2312", "Grüße aus Köln, schöne Größe".encode(), "Grüße aus Köln, schöne Größe"),
        ("shift_jis", "請求書を送り".encode(), "請求書を送り"),
        ("gb2312", "联通".encode("gbk"), "联通"),
        ("iso-8859-15", b"\x93Hi\x94 \xe4", "“Hi” ä"),
        ("iso-8859-15", b"5 \xa4", "5 €"),
        ("iso-8859-2", "Příliš, š".encode("cp1250"), "Příliš, š"),
        ("iso-8859-2", "Příliš".encode("iso8859-2"), "Příliš"),
        ("iso-8859-7", b"\x93\xc3\x94", "“Γ”"),
        ("euc-jp", b"\xad\xa1 \xad\xea \xc0\xb5\xb5\xe1", "① ㈱ 正求"),
        ("", "请查收".encode("hz"), "请查收"),
        ("us-ascii", "안녕".encode("iso2022_kr"), "안녕"),
        ("", "Guten Tag".encode("utf-16-le"), "Guten Tag"),
        ("utf-8", "Grüße aus Köln".encode("utf-16-be"), "Grüße aus Köln"),
        ("us-ascii", b"a ~{ in an address~} and +AGEAYg-", "a ~{ in an address~} and +AGEAYg-"),
        ("iso-8859-1", RUSSIAN.encode("cp1251"), RUSSIAN),
        ("iso-8859-1", CHINESE.encode("gb18030"), CHINESE),
        ("iso-8859-15", RUSSIAN.encode("koi8-r"), RUSSIAN),
        ("iso-8859-1", "Привет".encode("cp1251"), "Ïðèâåò"),
        ("windows-1252", "ÄÖÜ, ÄÖÜ, ÄÖ".encode("cp1252"), "ÄÖÜ, ÄÖÜ, ÄÖ"),
    ],
)  # fmt: skip
def test_label_is_read_as_browsers_read_it(label: str, content: bytes, text: str) -> None:
    assert text_of(content, label) == text


@pytest.mark.parametrize("label", ["idna", "punycode", "hex", "rot13", "undefined", "unicode_escape",
                                   "replacement", "x-user-defined", "mbcs", "", "ü", "x" * 41])  # fmt: skip
def test_label_of_no_charset_counts_as_missing(label: str) -> None:
    assert codec_of(label) is None


def test_every_codec_decodes_text() -> None:
    assert all(b"".decode(codec) == "" for codec in CODECS)


@pytest.mark.parametrize("label", ["", "us-ascii", "utf-8"])
@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("utf-8", "Grüße, 你好, привет"),
        ("cp1252", "Müller – Rechnung über 5 €"),
        ("cp1252", "Señor Muñoz, la reunión es mañana"),
        ("cp1252", "Foo™bar"),
        ("cp1252", "nº 5, 1ª"),
        ("cp1252", "“It’s fine” • really…"),
        ("cp1251", "Привет"),
        ("cp1251", RUSSIAN),
        ("koi8-r", RUSSIAN),
        ("cp1250", "Zażółć gęślą jaźń, proszę o odpowiedź"),
        ("cp1253", "Καλημέρα, στείλτε το τιμολόγιο"),
        ("cp1254", "Işık Yağmur, teşekkürler"),
        ("cp1255", HEBREW),
        ("cp1256", "السلام عليكم، مرفق الفاتورة"),
        ("cp932", "お世話になっております。請求書を送ります。"),
        ("euc-jp", "お世話になっております。請求書を送ります。"),
        ("iso2022_jp", "請求書を送ります。"),
        ("gb18030", "您好，请查收附件中的发票。"),
        ("big5", "您好，請查收附件中的發票。"),
        ("cp949", "안녕하세요, 청구서를 첨부합니다."),
    ],
)
def test_text_with_no_or_a_wrong_label_is_detected(label: str, codec: str, text: str) -> None:
    assert text_of(text.encode(codec), label) == text


def test_one_damaged_letter_keeps_the_charset() -> None:
    content = "Grüße aus Köln, schöne".encode() + b"\xff!"
    assert text_of(content, "utf-8") == f"Grüße aus Köln, schöne{REPLACED}!"


@pytest.mark.parametrize(
    ("page", "label", "seen"),
    [
        (b"\xef\xbb\xbf<meta charset=latin1>\xc3\xbc", "windows-1251", "ü"),
        (b"\xff\xfe" + "<p>ü".encode("utf-16-le"), "us-ascii", "ü"),
        (b'<meta charset="windows-1251"><p>\xcf\xf0\xe8\xe2\xe5\xf2', "", "Привет"),
        (b'<META http-equiv=Content-Type content="a; charset=koi8-r"><p>\xf0\xd2\xc9\xd7\xc5\xd4', "", "Привет"),
        (b'<?xml version="1.0" encoding="windows-1250"?><p>\x9alut\xfd', "", "šlutý"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=windows-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2", "", "Привет"),
        (b'<meta charset="utf-16"><p>\xc3\xbc', "", "ü"),
        (b'<meta charset="windows-1251"><p>\xcf\xf0\xe8\xe2\xe5\xf2', "utf-8", "Привет"),
        (b'<meta charset="windows-1251"><p>\xcf\xf0\xe8\xe2\xe5\xf2', "us-ascii", "Привет"),
        (b'<meta charset="koi8-r"><p>\xfc', "iso-8859-1", "ü"),
        (b'<meta charset="gb2312"><p>' + "镕".encode("gbk"), "", "镕"),
        ("<p>Привет".encode("cp1251"), "", "Привет"),
        ("<p>Привет".encode(), "", "Привет"),
    ],
)  # fmt: skip
def test_page_is_read_in_the_charset_that_it_names(page: bytes, label: str, seen: str) -> None:
    assert text_of(page, label, is_page=True).rpartition(">")[2].lstrip("<p>") == seen


def test_control_characters_become_visible() -> None:
    every = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0xD800, 0xDFFF)))
    kept = set(without_controls(f"a{every}b"))
    assert kept == {"a", "b", "\t", "\n", REPLACED}
    assert text_of(b"a\0b\r\nc\rd", "utf-8") == f"a{REPLACED}b\nc\nd"


def test_reference_to_a_control_character_is_replaced() -> None:
    html = "<p>a&#0;b&#1;c&#129;d&#x7f;e</p>"
    for text in (page_text(html).text, clean_page(html)):
        assert not {c for c in text if unicodedata.category(c) == "Cc"} - {"\n"}
    assert "\x81" in clean_html(html)


def test_nul_that_a_server_wrote_as_0x80_is_no_euro_sign() -> None:
    assert text_of(b"pay\x80load", "utf-8") == f"pay{REPLACED}load"
    assert text_of(b"pay\x80load (\x80)", "iso-8859-1") == f"pay{REPLACED}load (€)"
    assert text_of(b"a \x80\x80\x80", "utf-8") == f"a {REPLACED}"
    assert text_of(b"5\x80 or \x80 5", "us-ascii") == "5€ or € 5"


def test_text_file_is_read_in_its_real_charset() -> None:
    assert extract_text("text/plain", RUSSIAN.encode("cp1251")) == RUSSIAN
    assert extract_text("text/csv", b"a;\xfc\r\nb\0;c") == f"a;ü\nb{REPLACED};c"
    page = b"<meta charset=koi8-r><p>" + RUSSIAN.encode("koi8-r")
    assert extract_text("text/html", page).strip() == RUSSIAN


@given(content=st.binary(max_size=80), label=st.text(max_size=12), is_page=st.booleans())
def test_any_bytes_give_a_text_that_can_be_written(
    content: bytes, label: str, is_page: bool
) -> None:
    text_of(content, label, is_page=is_page).encode()


@pytest.mark.parametrize("piece", [b"\xe9", b"<!--", b"\x1b$B", b"<meta ", b"+"])
@pytest.mark.parametrize("label", ["", "iso-2022-jp", "utf-7"])
def test_long_content_is_read_in_linear_time(piece: bytes, label: str) -> None:
    def read(size: int) -> None:
        text_of(piece * (size // len(piece)) + b"\xe9", label, is_page=True)

    check_growth(read, 400_000)
