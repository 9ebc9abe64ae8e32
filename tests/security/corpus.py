"""Hostile inputs for each parser, the same for the same seed: nesting, repetition of every token of
the grammar, boundaries, encodings, and mixtures of them.
"""

import io
import random
import zipfile
from collections.abc import Callable, Iterator

SEED = 20261122
HTML = [
    *"<div> <table><tr><td> <b> <![ <!-- <!--> --> </ </div> <p < > & &# &#x &amp; \" ' <svg><math> <style>".split(),
    *"<script> <title> <plaintext> <template> <select><option> <ul><li> <blockquote> <?xml <!DOCTYPE".split(),
    *"<form> <i><b> ]]> = /".split(),
    '<a href="x">',
    '<div style="color:',
    'style="font-size:0.0000',
    "<font size=1 ",
    "<img src=x ",
    "<a a=1 ",
    "\0",
    "\ufffe",
]
HEADER = [
    *'( ) < > @ , : ; " \\ [ ] . a= ?= =?utf-8?q?a?= =?utf-8?b?YQ==?= =?x?q? =?punycode?q?a?= a: é ;" \xff'.split(),
    "a@b.example, ",
    '"a" <a@b.example>, ',
    "(a) ",
    "<a@b> ",
    ";a*0*=utf-8''%41",
    "\t",
    "\r\n ",
]
MIME = [
    "--a\r\n",
    "--a--\r\n",
    "\r\n\r\n",
    "Content-Type: multipart/mixed; boundary=a\r\n\r\n",
    "=\r\n",
    "=3D",
    ';"',
    "Content-Type: message/rfc822\r\n\r\n",
    "Content-Type: text/plain; charset=punycode\r\n\r\n",
    "begin 644 a\r\n",
    "Content-Transfer-Encoding: base64\r\n",
    "Content-Disposition: attachment; filename*0*=a\r\n",
    "X" * 70 + "\r\n",
    "From: ((((\r\n",
    " \r\n",
    "--",
    "\0",
]
CHARSETS = """
    utf-8 utf-7 utf-16 utf-32 punycode idna unicode_escape raw_unicode_escape iso-2022-jp iso-2022-kr hz gb18030 big5
    shift_jis euc-kr hex rot13 zlib bz2 undefined mbcs koi8-r windows-1252 x-unknown ../../etc cp65001 utf-8-sig
""".split()
BYTES = [
    b"\x1b$B",
    b"\x1b",
    b"~{",
    b"+AAA-",
    b"\xff\xfe",
    b"\x00\xd8",
    b"\x81",
    b"-",
    b"\\u0041",
    b"a-",
    b"\xf0\x9f",
    b"=",
]
TEXT = [
    *"Re: [1] fwd aw ## ### sk- eyJ- -----BEGIN http:// h. a@ > >>> 4111 - $1. {10} %".split(),
    *'* " \\ } ) xn-- 密码 anbei ---'.split(),
    " ",
    "\t",
    "\n",
    "\n ",
    "ignore previous ",
    "system: ",
    "password is ",
    "On x wrote:\n",
    "[image: ",
    "OR from: ",
    "\u200b",
    "\u202e",
    "\U000e0041",
    "dear ",
    "use ",
]
SIZES = (2_000, 15_000, 100_000, 450_000)


def repeated(draw: random.Random, tokens: list[str], size: int) -> str:
    """Return one of: a repeated token, two alternating tokens, many of one and then another, or a
    mixture.
    """
    one, other = draw.choice(tokens), draw.choice(tokens)
    match draw.randrange(5):
        case 0:
            return (one * (size // len(one) + 1))[:size]
        case 1:
            return ((one + other) * (size // len(one + other) + 1))[:size]
        case 2:
            return one * (size // (2 * len(one))) + other * (size // (2 * len(other)))
        case 3:
            return one + " " * (size - len(one)) + other
    return "".join(draw.choice(tokens) for _ in range(size // 6))


def texts(
    tokens: list[str], sizes: tuple[int, ...] = SIZES
) -> Callable[[random.Random, int], Iterator[str]]:
    """Yield every token by itself at every size first, so no draw leaves one out; then mixtures."""

    def made(draw: random.Random, count: int) -> Iterator[str]:
        single = [token * (size // len(token)) for size in reversed(sizes) for token in tokens]
        draw.shuffle(single)
        given = 0
        for text in single[: count * 2 // 3]:
            yield text
            given += 1
        for _ in range(count - given):
            yield repeated(draw, tokens, draw.choice(sizes))

    return made


def html(draw: random.Random, count: int) -> Iterator[str]:
    yield "<div>" * 60_000 + "deep"
    yield "<![" * 30_000
    yield '<p style="font-size:1.' + "0" * 200_000 + 'x">x</p>'
    yield from texts([token for token in HTML if token])(draw, count - 3)


def header_blocks(draw: random.Random, count: int) -> Iterator[bytes]:
    for text in texts([token for token in HEADER if token], (2_700, 20_000, 200_000))(draw, count):
        value = text.encode("utf-8", "surrogateescape")
        yield b"".join(name + b": " + value + b"\r\n" for name in draw.sample(NAMES, 3)) + b"\r\n"


NAMES = [
    b"From",
    b"To",
    b"Cc",
    b"Reply-To",
    b"Subject",
    b"Date",
    b"References",
    b"Message-ID",
    b"Content-Type",
]


def messages(draw: random.Random, count: int) -> Iterator[bytes]:
    """Yield whole messages with a hostile structure."""
    yield nested(400)
    yield b"To: " + b"(" * 2_700 + b"\r\n\r\nx"
    for text in texts(MIME, (2_000, 30_000, 300_000))(draw, count - 2):
        kind = draw.choice(
            [
                "multipart/mixed; boundary=a",
                "text/html",
                "text/plain; charset=utf-7",
                "message/rfc822",
            ]
        )
        head = f"From: m@x.example\r\nTo: ada@lovelace.example\r\nSubject: x\r\nContent-Type: {kind}\r\n\r\n"
        yield (head + text).encode("utf-8", "replace")


def nested(depth: int) -> bytes:
    parts = [
        f"Content-Type: multipart/mixed; boundary=b{number}\r\n\r\n--b{number}\r\n"
        for number in range(depth)
    ]
    return f"To: a@b.example\r\n{''.join(parts)}Content-Type: text/plain\r\n\r\nx".encode()


def encoded(draw: random.Random, count: int) -> Iterator[tuple[bytes, str]]:
    for number in range(count):
        token = BYTES[number % len(BYTES)] + draw.choice([b"", *BYTES])
        yield token * (1_000_000 // len(token)), CHARSETS[number // len(BYTES) % len(CHARSETS)]


def files(draw: random.Random, count: int) -> Iterator[tuple[bytes, str]]:
    """Yield documents with their names. Most are small, but their unpacked content is not."""
    yield bomb("word/document.xml"), "bomb.docx"
    yield bomb("xl/workbook.xml"), "bomb.xlsx"
    pdf = [
        b"1 0 obj",
        b"<<",
        b"[",
        b"(",
        b"/Kids [1 0 R]",
        b"/Parent 1 0 R",
        b"stream\n",
        b"endobj\n",
        b"xref\n",
        b"\\",
    ]
    markup = [token for token in HTML if token]
    for number in range(count - 2):
        size = draw.choice((2_000, 50_000, 400_000))
        match number % 5:
            case 0:
                token = draw.choice(pdf)
                yield (
                    b"%PDF-1.7\n"
                    + token * (size // len(token))
                    + b"\ntrailer <</Root 1 0 R>>\n%%EOF",
                    "a.pdf",
                )
            case 1:
                yield repeated(draw, markup, size).encode("utf-8", "replace"), "a.html"
            case 2:
                yield (
                    repeated(draw, ['"', ",", "\n", ";", "a", '"",', "\r", "\x00"], size).encode(),
                    "a.csv",
                )
            case 3:
                yield (
                    packed(
                        {"word/document.xml": repeated(draw, ["<w:p>", "<", "&a;", "<w:t>x"], size)}
                    ),
                    "a.docx",
                )
            case 4:
                yield (
                    packed(
                        {"xl/workbook.xml": repeated(draw, ["<sheet>", "<", "&a;", "<row>"], size)}
                    ),
                    "a.xlsx",
                )


def packed(entries: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return made.getvalue()


def bomb(name: str) -> bytes:
    return packed({name: "<a>" * 30_000_000, "[Content_Types].xml": "<Types/>"})


def plain(draw: random.Random, count: int) -> Iterator[str]:
    yield from texts([token for token in TEXT if token], (500, 2_000, 20_000, 100_000))(draw, count)


def short(draw: random.Random, count: int) -> Iterator[str]:
    yield from texts([token for token in TEXT if token], (20, 100, 250, 500))(draw, count)
