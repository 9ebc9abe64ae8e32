"""Reading mail in any charset on a real IMAP server, from the bytes that programs really send.

Each charset and each form of a header is tested in test_charsets.py, test_encoded_words.py and
test_mail_corpus.py of tests/tools. Here a case shows that the bytes come from the server unchanged.
"""

import unicodedata

import pytest

from tests.support.people.office import Office, office

__all__ = ["office"]
pytestmark = pytest.mark.django_db(transaction=True)
REPLACED = "\ufffd"
LONG = pytest.mark.long
TEXT = b"text/plain; charset="


def mail(content_type: bytes, body: bytes, *headers: bytes) -> bytes:
    head = [b"From: mira@northwind.example", *headers, b"MIME-Version: 1.0"]
    if content_type:
        head += [b"Content-Type: " + content_type, b"Content-Transfer-Encoding: 8bit"]
    return b"\r\n".join((*head, b"", body, b""))


@pytest.mark.parametrize(
    ("source", "body"),
    [
        pytest.param(mail(TEXT + b"iso-8859-1", b"\x93Hi\x94 5 \x80"), "“Hi” 5 €", id="latin-1"),
        pytest.param(mail(TEXT + b"ks_c_5601-1987", b"\x8c\x63"), "똠", id="korean", marks=LONG),
        pytest.param(mail(TEXT + b"gb2312", b"\xe9F"), "镕", id="chinese", marks=LONG),
        pytest.param(mail(TEXT + b"x-sjis", b"\x87@\x87\x8a"), "①㈱", id="japanese", marks=LONG),
        pytest.param(mail(TEXT + b"iso-2022-jp", b"\x1b$B-!\x1b(B"), "①", id="japanese-7-bit", marks=LONG),
        pytest.param(mail(TEXT + b"iso-8859-8-i", b"\xf9\xec\xe5\xed"), "שלום", id="hebrew", marks=LONG),
        pytest.param(mail(TEXT + b"utf-7", b"Gr+APwA3w-e"), "Grüße", id="utf-7", marks=LONG),
        pytest.param(mail(TEXT + b"klingon", b"Gr\xc3\xbc\xc3\x9fe"), "Grüße", id="unknown-label", marks=LONG),
        pytest.param(mail(b"", b"\xcf\xf0\xe8\xe2\xe5\xf2, \xcc\xe0\xf0\xe8\xff"), "Привет, Мария", id="no-type"),
        pytest.param(mail(TEXT + b"us-ascii", b"Gr\xfc\xdfe aus K\xf6ln"), "Grüße aus Köln", id="ascii", marks=LONG),
        pytest.param(mail(TEXT + b"utf-8", b"Gr\xfc\xdfe aus K\xf6ln"), "Grüße aus Köln", id="not-utf-8", marks=LONG),
        pytest.param(mail(b"text/html", b"<meta charset=cp1251><p>\xcf\xf0\xe8\xe2"), "Прив", id="meta", marks=LONG),
        pytest.param(mail(b"text/html", b"<p>\xcf\xf0\xe8\xe2\xe5\xf2"), "Привет", id="page-without-charset"),
        pytest.param(mail(b"text/html", b"\xef\xbb\xbf<p>\xc3\xbc"), "ü", id="byte-order-mark", marks=LONG),
    ],
)  # fmt: skip
def test_body_is_read_in_its_real_charset(office: Office, source: bytes, body: str) -> None:
    assert office.tool("read_email", message_id=office.receive(source))["body"] == body


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        pytest.param(b"Gr\xc3\xbc\xc3\x9fe, \xe4\xbd\xa0\xe5\xa5\xbd", "Grüße, 你好", id="raw-utf-8", marks=LONG),
        pytest.param(b"Gr\xfc\xdfe aus K\xf6ln", "Grüße aus Köln", id="raw-windows-1252", marks=LONG),
        pytest.param(b"\xd1\xf7\xb8\xf2 \xe7\xe0 \xec\xe0\xf0\xf2", "Счёт за март", id="raw-windows-1251"),
        pytest.param(b"=?utf-8?q?Gr=C3?=\r\n =?utf-8?q?=BC=C3=9Fe?=", "Grüße", id="split-character", marks=LONG),
        pytest.param(b"=?gb2312?b?6UY=?=", "镕", id="label-of-a-word"),
        pytest.param(b"=?utf-8?q?a=00b?=", f"a{REPLACED}b", id="encoded-nul", marks=LONG),
    ],
)  # fmt: skip
def test_header_is_read_from_its_bytes(office: Office, raw: bytes, text: str) -> None:
    source = mail(
        b"text/plain", b"x", b'From: "' + raw + b'" <zoe@alps.example>', b"Subject: " + raw
    )
    source = source.replace(b"From: mira@northwind.example\r\n", b"")
    message_id = office.receive(source)

    card = office.tool("list_emails", max_results=1)["emails"][0]
    read = office.tool("read_email", message_id=message_id)

    assert (card["subject"], read["subject"]) == (text, text)
    assert card["name"] == text
    assert card["from"] == read["from"] == "zoe@alps.example"


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        (b"filename*=windows-1251''%D1%F7%B8%F2.pdf", "Счёт.pdf"),
        (b'filename="Gr\xfc\xdfe.pdf"', "Grüße.pdf"),
        pytest.param(b"filename*=iso-8859-1''%93Hi%94.pdf", "“Hi”.pdf", marks=LONG),
        pytest.param(b"filename*0*=utf-8''Gr%C3;\r\n filename*1*=%BC%C3%9Fe.pdf", "Grüße.pdf", marks=LONG),
        pytest.param(b'filename="=?gb2312?b?6UY=?=.pdf"', "镕.pdf", marks=LONG),
        pytest.param(b'filename="Gr\xc3\xbc\xc3\x9fe.pdf"', "Grüße.pdf", marks=LONG),
        pytest.param(b"filename*=utf-8''a%00b%0D%0Ac.pdf", "a_b c.pdf", marks=LONG),
    ],
)  # fmt: skip
def test_file_name_is_read_in_its_charset(office: Office, disposition: bytes, name: str) -> None:
    source = mail(b"application/pdf", b"x", b"Content-Disposition: attachment; " + disposition)
    read = office.tool("read_email", message_id=office.receive(source))
    assert [file["name"] for file in read["attachments"]] == [name]


@pytest.mark.parametrize("form", ["full", pytest.param("html", marks=LONG)])
@pytest.mark.parametrize("kind", [b"text/plain", b"text/html"])
def test_control_characters_of_a_body_are_visible(office: Office, kind: bytes, form: str) -> None:
    body = b"<p>pay\0load \x07bell \x1b[31mred &#1; &#129;"
    message_id = office.receive(mail(kind + b"; charset=utf-8", body))

    read = office.tool("read_email", message_id=message_id, format=form)["body"]

    assert f"pay{REPLACED}load {REPLACED}bell {REPLACED}[31mred" in read
    assert not {c for c in read if unicodedata.category(c) == "Cc"} - {"\n"}
