"""Reading BODYSTRUCTURE as real servers send it."""

import quopri
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imapclient.response_parser import parse_fetch_response

from tools.mail.message import lenient, mime
from tools.mail.message.parts import MAX_PARTS, Part
from tools.providers.imap import structure

TEXT = b'("text" "plain" ("charset" "utf-8") NIL NIL "7bit" 12 1 NIL NIL NIL NIL)'
HTML = b'("text" "html" ("charset" "utf-8") NIL NIL "quoted-printable" 30 1 NIL NIL NIL NIL)'
PDF = b'("application" "pdf" ("name" "a.pdf") NIL NIL "base64" 1370 NIL ("attachment" ("filename" "b.pdf")) NIL NIL)'
ENVELOPE = b"(NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL)"


def parsed(text: bytes) -> Any:
    """Return the client's parsed form of a BODYSTRUCTURE on the wire."""
    return parse_fetch_response([b"1 (UID 1 BODYSTRUCTURE " + text + b")"])[1][b"BODYSTRUCTURE"]


def leaves(text: bytes) -> list[Part]:
    return list(structure.tree_of(parsed(text))[0].leaves())


def one_part(parameters: bytes, disposition: bytes) -> Part:
    (part,) = leaves(
        b'("application" "pdf" %s NIL NIL "base64" 100 NIL %s NIL NIL)' % (parameters, disposition)
    )
    return part


def part(**changes: Any) -> Part:
    charset = changes.pop("charset", "")
    usual = {"number": "1", "type": "text/plain", "parameters": {"charset": charset}}
    return Part(**{**usual, **changes})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(TEXT, [("1", "text/plain")], id="text-alone"),
        pytest.param(b"(" + TEXT + HTML + b' "alternative" ("boundary" "x") NIL NIL)',
                     [("1", "text/plain"), ("2", "text/html")], id="alternative"),
        pytest.param(b"((" + TEXT + HTML + b' "alternative" NIL NIL NIL)' + PDF + b' "mixed" NIL NIL NIL)',
                     [("1.1", "text/plain"), ("1.2", "text/html"), ("2", "application/pdf")], id="mixed"),
        pytest.param(b"(((" + TEXT + b' "a")' + PDF + b' "b")' + HTML + b' "c")',
                     [("1.1.1", "text/plain"), ("1.2", "application/pdf"), ("2", "text/html")], id="without-extension"),
        pytest.param(b'(("TEXT" "PLAIN" NIL NIL NIL "7BIT" 12 1) "MIXED")', [("1", "text/plain")], id="upper-case"),
        pytest.param(b'("message" "rfc822" NIL NIL NIL "7bit" 500 ' + ENVELOPE + b" " + TEXT + b" 20)",
                     [("1", "message/rfc822")], id="an-attached-message-is-one-leaf"),
        pytest.param(b'("MIXED" ("boundary" "x") NIL NIL)', [], id="multipart-without-parts"),
        pytest.param(b'("text" "plain" NIL NIL NIL NIL NIL NIL)', [("1", "text/plain")], id="nothing-known"),
    ],
)  # fmt: skip
def test_leaves_have_the_section_numbers_of_the_standard(
    text: bytes, expected: list[tuple[str, str]]
) -> None:
    assert [(leaf.number, leaf.type) for leaf in leaves(text)] == expected


def test_leaf_has_its_charset_encoding_size_and_disposition() -> None:
    text, html, pdf = leaves(b"(" + TEXT + HTML + PDF + b' "mixed" NIL NIL NIL)')
    assert (text.charset, text.encoding, text.size, text.name, text.disposition) == (
        "utf-8",
        "7bit",
        12,
        "",
        "",
    )
    assert (html.encoding, html.size) == ("quoted-printable", 30)
    assert (pdf.name, pdf.encoding, pdf.size, pdf.disposition) == (
        "b.pdf",
        "base64",
        1000,
        "attachment",
    )
    assert [leaf.size_is_estimate for leaf in (text, html, pdf)] == [False, True, True]
    assert [leaf.is_attachment for leaf in (text, html, pdf)] == [False, False, True]


def test_disposition_of_a_message_follows_its_structure() -> None:
    (found,) = leaves(
        b'("message" "rfc822" NIL NIL NIL "7bit" 500 '
        + ENVELOPE
        + b" "
        + TEXT
        + b' 20 NIL ("attachment" NIL) NIL NIL)'
    )
    assert (found.disposition, found.is_attachment) == ("attachment", True)


@pytest.mark.parametrize(
    ("parameters", "disposition", "name"),
    [
        pytest.param(b'("name" "a.pdf")', b"NIL", "a.pdf", id="name-alone"),
        pytest.param(b'("NAME" "a.pdf")', b'("ATTACHMENT" ("FILENAME" "b.pdf"))', "b.pdf", id="upper-case"),
        pytest.param(b"NIL", b'("attachment" NIL)', "", id="no-name"),
        pytest.param(b"NIL", b'("attachment" ("filename" "=?utf-8?q?=C3=A9.pdf?="))', "é.pdf", id="encoded-word"),
        pytest.param(b"NIL", b'("attachment" ("filename" {6}\r\n\xc3\xa9.pdf))', "é.pdf", id="raw-utf-8"),
        pytest.param(b"NIL", b'("attachment" ("filename*" "utf-8\'\'%C3%A9.pdf"))', "é.pdf", id="rfc-2231"),
        pytest.param(b"NIL", b'("attachment" ("filename*" "iso-8859-1\'de\'%E9.pdf"))', "é.pdf", id="rfc-2231-latin"),
        pytest.param(
            b"NIL", b'("attachment" ("filename*0*" "utf-8\'\'%C3" "filename*1*" "%A9" "filename*2" "%.pdf"))',
            "é%.pdf", id="rfc-2231-pieces",
        ),
        pytest.param(
            b"NIL", b'("attachment" ("filename*1" "b.pdf" "filename*0" "a"))', "ab.pdf", id="rfc-2231-out-of-order"
        ),
        pytest.param(
            b"NIL", b'("attachment" ("filename" "e.pdf" "filename*" "utf-8\'\'%C3%A9.pdf"))', "é.pdf",
            id="rfc-2231-beside-plain",
        ),
        pytest.param(
            b"NIL", b'("attachment" ("filename*99999999999*" "a" "filename**" "b"))', "ab", id="rfc-2231-nonsense"
        ),
        pytest.param(b"NIL", b'("attachment" ("filename*" "x-no\'\'%C3%A9.pdf"))', "é.pdf", id="rfc-2231-charset"),
    ],
)  # fmt: skip
def test_attachment_name_is_read_in_any_notation(
    parameters: bytes, disposition: bytes, name: str
) -> None:
    if b"{" in disposition:  # a literal reaches the parser as a tuple
        head, _, tail = disposition.partition(b" {6}\r\n")
        parts: Any = [
            (
                b'1 (UID 1 BODYSTRUCTURE ("application" "pdf" NIL NIL NIL "base64" 100 NIL '
                + head
                + b" {6}",
                tail[:6],
            ),
            tail[6:] + b" NIL NIL))",
        ]
        found = parse_fetch_response(parts)[1][b"BODYSTRUCTURE"]
        assert [leaf.name for leaf in structure.tree_of(found)[0].leaves()] == [name]
    else:
        assert one_part(parameters, disposition).name == name


def test_endlessly_nested_mail_is_cut_off() -> None:
    deep = b"(" * 100 + TEXT + b' "mixed")' * 100
    assert leaves(deep) == []
    shallow = b"(" * 40 + TEXT + b' "mixed")' * 40
    assert [leaf.number.count(".") for leaf in leaves(shallow)] == [39]


def test_mail_of_very_many_parts_is_cut_off() -> None:
    assert len(leaves(b"(" + TEXT * 3000 + b' "mixed")')) == MAX_PARTS


def test_text_is_the_first_part_that_is_not_attached() -> None:
    attached = part(number="1", disposition="attachment")
    first, second, html = (
        part(number="2"),
        part(number="3"),
        part(number="4", type="text/html", disposition="inline"),
    )
    whole = (attached, first, second, html)

    def shown(*children: Part) -> Part | None:
        return mime.text_part(part(number="", type="multipart/mixed", children=children))

    assert shown(*whole) is first
    assert shown(attached, html) is html
    assert shown(attached) is None


@pytest.mark.parametrize(
    ("kind", "name", "disposition", "expected"),
    [
        ("text/plain", "", "", False), ("text/plain", "", "inline", False), ("text/plain", "a.txt", "", False),
        ("text/plain", "a.txt", "attachment", True), ("text/plain", "", "attachment", True),
        ("text/plain", "a.txt", "inline", True), ("text/calendar", "", "", True), ("image/png", "", "inline", True),
        ("image/png", "a.png", "inline", True), ("image/png", "a.png", "", True),
    ],
)  # fmt: skip
def test_attachments_are_recognised(kind: str, name: str, disposition: str, expected: bool) -> None:
    assert part(type=kind, name=name, disposition=disposition).is_attachment is expected


@pytest.mark.parametrize(
    ("content", "encoding", "charset", "text"),
    [
        (b"a\r\nb\r\n", "7bit", "us-ascii", "a\nb\n"),
        (b"caf=C3=A9=\r\n!", "quoted-printable", "utf-8", "café!"),
        (b"caf=C", "quoted-printable", "utf-8", "caf=C"),
        (b"Y2Fmw6k=", "base64", "utf-8", "café"),
        (b"Y2Fm\r\nw6k", "base64", "utf-8", "café"),  # cut in the middle of a group
        (b"Y2Fmw6kx"[:5], "base64", "utf-8", "caf"),
        (b"", "base64", "utf-8", ""),
        (b"caf\xe9", "8bit", "iso-8859-1", "café"),
        (b"caf\xe9", "", "", "café"),
        (b"x", "x-unknown", "utf-8", "x"),
        (b"caf\xc3", "8bit", "utf-8", "cafÃ"),  # cut in the middle of a character
    ],
)
def test_text_of_a_part_is_decoded(content: bytes, encoding: str, charset: str, text: str) -> None:
    assert structure.part_text(content, part(encoding=encoding, charset=charset)) == text


@pytest.mark.parametrize("last", ["ü", "你", "😀"])
@pytest.mark.parametrize("encoding", ["8bit", "quoted-printable"])
def test_cut_inside_a_character_loses_only_that_character(encoding: str, last: str) -> None:
    before = "Grüße, 你好.".encode()
    rest = last.encode()
    if encoding == "quoted-printable":
        before, rest = quopri.encodestring(before), quopri.encodestring(rest)
    for length in range(len(rest)):
        cut = before + rest[:length]
        found = part(encoding=encoding, charset="utf-8")
        read = {structure.part_text(cut, found, whole=False), structure.snippet(cut, found)}
        assert {text.partition(".")[0] for text in read} == {"Grüße, 你好"}
        assert all(text.isascii() for text in (text.partition(".")[2] for text in read))


@given(
    content=st.binary(max_size=60),
    encoding=st.sampled_from(["", "7bit", "base64", "quoted-printable", "x"]),
    charset=st.one_of(
        st.text(max_size=12),
        st.sampled_from(
            [
                "idna",
                "punycode",
                "undefined",
                "hex",
                "rot13",
                "utf-7",
                "utf-16",
                "a\0b",
                "unicode_escape",
                "mbcs",
            ]
        ),
    ),
)
@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:invalid octal escape sequence:DeprecationWarning")
def test_any_content_is_decoded_without_an_error(
    content: bytes, encoding: str, charset: str
) -> None:
    found = part(encoding=encoding, charset=charset)
    assert isinstance(structure.part_text(content, found), str)
    assert len(structure.snippet(content, found)) <= 200


@given(block=st.binary(max_size=200), value=st.text(max_size=80))
def test_any_header_is_read_without_an_error(block: bytes, value: str) -> None:
    raw = value.encode("utf-8", "surrogatepass")
    for source in (
        block,
        b"From: " + raw + b"\r\nDate: " + raw + b"\r\nSubject: =?" + raw + b"?=\r\n\r\n",
    ):
        found = lenient.headers(source)
        lenient.date_of(found, None)
        for name, address in lenient.addresses(found, "From"):
            assert not set("\r\n\0") & set(name + address)
        assert not set("\r\n\0") & set(lenient.decode_text(found["Subject"]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<p>one</p><p>two</p>", "one two"),
        ("<style>a{}</style>x", "x"),
        ("<script>if (a<b) c()</script>x", "x"),
        ("<head><title>t</title></head>x", "x"),
        ("x<!-- y -->z", "x z"),
        ("x<style>never closed", "x"),
        ("x<a href='cut of", "x"),
        ("a &lt;b&gt; &amp; c", "a <b> & c"),
        ("w" * 300, "w" * 200),
    ],
)
def test_snippet_of_html_is_its_visible_text(text: str, words: str) -> None:
    assert lenient.first_words(text, html=True) == words
