"""Headers as real programs write them: raw letters, and encoded words of every kind."""

import base64

import pytest
from imapclient.response_parser import parse_fetch_response

from tests.support.growth import check_growth
from tools.mail.message import lenient
from tools.mail.text.decoding import REPLACED
from tools.providers.imap import structure


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


CUT = "Grüße".encode()
WORDS = [
    ("=?utf-8?q?Gr=C3=BC=C3=9Fe?= =?utf-8?q?_aus?=", "Grüße aus"),
    ("=?utf-8?q?a?=\r\n =?utf-8?q?b?=", "ab"),
    ("=?utf-8?q?a?= b =?utf-8?q?c?=", "a b c"),
    ("=?iso-8859-1?q?=FC?= =?utf-8?q?=C3=9F?=", "üß"),
    (f"=?utf-8?b?{b64(CUT[:3])}?= =?utf-8?b?{b64(CUT[3:])}?=", "Grüße"),
    ("=?utf-8?q?Gr=C3?= =?UTF-8?q?=BC=C3=9Fe?=", "Grüße"),
    (f"=?utf-8?b?{b64(CUT)[:5]}?= =?utf-8?b?{b64(CUT)[5:]}?=", "Grüße"),
    (f"=?utf-8?b?{b64(CUT).rstrip('=')}?=", "Grüße"),
    ("=?utf-8?b?" + b64(CUT)[:4] + " " + b64(CUT)[4:] + "?=", "Grüße"),
    ("=?utf-8?Q?Hello W=C3=B6rld?=", "Hello Wörld"),
    ("=?utf-8?Q?What??=", "What?"),
    ("Re:=?utf-8?Q?=C3=BC?=x", "Re:üx"),
    ("=?utf-8*de?Q?=C3=BC?=", "ü"),
    ("=?gb2312?b?" + b64("镕".encode("gbk")) + "?=", "镕"),
    ("=?ks_c_5601-1987?b?" + b64("똠".encode("cp949")) + "?=", "똠"),
    ("=?iso-8859-1?q?=93Hi=94?=", "“Hi”"),
    ("=?iso-2022-jp?b?" + b64(b"\x1b$B-!\x1b(B") + "?=", "①"),
    ("=?utf-7?q?Gr+APwA3w-e?=", "Grüße"),
    ("=?klingon?q?=C3=BC?=", "ü"),
    ("=?unknown-8bit?q?Gr=FC=DFe?=", "Grüße"),
    ("=?us-ascii?q?=CF=F0=E8=E2=E5=F2?=", "Привет"),
    ("=??q?x?=", "x"),
    ("=?utf-8?q?=?utf-8?b?R3LDvMOfZQ==?=?=", "Grüße"),
    ("=?utf-8?q?=3D=3Futf-8=3Fq=3F=C3=BC=3F=3D?=", "ü"),
    ("=?utf-8?b?!!!?=", "=?utf-8?b?!!!?="),
    ("=?utf-8?x?abc?=", "=?utf-8?x?abc?="),
    ("=?utf-8?q?never closed", "=?utf-8?q?never closed"),
    ("=?utf-8?q?a=ZZb?=", "a=ZZb"),
    ("=?utf-8?q?a=00b=0Dc=0Ad?=", f"a{REPLACED}b c d"),
    ("folded\r\n line", "folded line"),
    ("folded\r\n\tline", "folded line"),
    ("a = ?b?", "a = ?b?"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), WORDS)
def test_encoded_words_are_decoded(value: str, text: str) -> None:
    block = lenient.headers(b"Subject: " + value.encode() + b"\r\n\r\n")
    assert lenient.decode_text(block["Subject"]) == lenient.decode_text(value) == text


RAW = [
    ("utf-8", "Grüße, 你好"), ("cp1252", "Grüße aus Köln – 5 €"), ("cp1251", "Счёт за март"),
    ("cp932", "請求書のご送付"),
    ("gb18030", "请查收附件"), ("cp1255", "חשבונית"), ("iso2022_jp", "請求書"),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "text"), RAW)
def test_raw_letters_are_read(codec: str, text: str) -> None:
    raw = text.encode(codec)
    block = lenient.headers(b'From: "' + raw + b'" <a@b.example>\r\nSubject: ' + raw + b"\r\n\r\n")
    assert lenient.decode_text(block["Subject"]) == text
    assert lenient.sender(block) == (text, "a@b.example")


def test_each_raw_header_has_its_own_charset() -> None:
    source = b"From: Zo\xc3\xab <zoe@alps.example>\r\nSubject: Gr\xfc\xdfe\r\n\r\n"
    block = lenient.headers(source)
    assert lenient.sender(block)[0] == "Zoë"
    assert lenient.decode_text(block["Subject"]) == "Grüße"


def test_raw_letters_are_in_the_charset_of_the_body() -> None:
    short = b"Subject: \xd8\xe8\xf0\xe8\r\nX-Other: \xc3\xbc\r\n\r\n"
    block = lenient.headers(short, "windows-1253")
    assert lenient.decode_text(block["Subject"]) == b"\xd8\xe8\xf0\xe8".decode("cp1253")
    assert lenient.decode_text(block["X-Other"]) == "ü"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("=?utf-8?q?M=C3=BCller,_Jan?= <a@b.example>", "Müller, Jan"),
        ("=?utf-8?q?M=C3=BCller, Jan?= <a@b.example>", "Müller, Jan"),
        ("=?utf-8?q?info@firma.example?= <a@b.example>", "info@firma.example"),
        ('"=?utf-8?q?J=C3=BCrgen?=" <a@b.example>', "Jürgen"),
        ("=?utf-8?q?J=C3?= =?utf-8?q?=BCrgen?= <a@b.example>", "Jürgen"),
        ("=?utf-8?q?a=00b?= <a@b.example>", f"a{REPLACED}b"),
    ],
)
def test_encoded_name_never_changes_the_address(value: str, name: str) -> None:
    block = lenient.headers(b"From: " + value.encode() + b"\r\n\r\n")
    assert lenient.addresses(block, "From") == ((name, "a@b.example"),)


def test_control_character_in_an_address_is_visible() -> None:
    block = lenient.headers(b"From: <a\0b@c.example>\r\n\r\n")
    assert lenient.sender(block) == ("", f"a{REPLACED}b@c.example")


@pytest.mark.parametrize(
    "piece", ["=?a?q?", "=?", "=?a?b?=?=", "=?utf-8?q?x?= ", "?=", "=?utf-8?b?a?= "]
)
def test_long_header_is_read_in_linear_time(piece: str) -> None:
    def read(number: int) -> None:
        lenient.decode_text(piece * number)
        lenient.addresses(lenient.headers(b"To: " + piece.encode() * number + b"\r\n\r\n"), "To")

    check_growth(read, 100_000)


@pytest.mark.parametrize("charset", ["utf-8", "gb18030"])
def test_many_raw_headers_are_read_in_linear_time(charset: str) -> None:
    line = b"To: \xe9\x81\r\n"
    check_growth(lambda number: lenient.headers(line * number, charset), 6_000)


def test_many_raw_names_are_read_in_linear_time() -> None:
    part = b'("a" "b" ("name" "' + b"\xe9" * 1000 + b'") NIL NIL "8bit" 1)'

    def read(number: int) -> None:
        answer = parse_fetch_response([b"1 (BODYSTRUCTURE (" + part * number + b' "mixed"))'])
        assert len(list(structure.tree_of(answer[1][b"BODYSTRUCTURE"])[0].leaves())) == number

    check_growth(read, 1_000)
