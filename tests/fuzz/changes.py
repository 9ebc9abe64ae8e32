"""Changes that break a message in the ways in which real ones break, and in some that are worse."""

import random
import re
from collections.abc import Callable, Sequence

from tests.security.corpus import BYTES, CHARSETS, HEADER, HTML, MIME

LARGEST = 256 * 1024
BOUNDARY = re.compile(rb"(?m)^--[^\r\n]{1,70}\r?$")
CHARSET = re.compile(rb"(?i)(?<=charset=)\"?[\w.:-]+\"?")
ENCODING = re.compile(rb"(?i)(?<=transfer-encoding: )[\w-]+")
MEDIA_TYPE = re.compile(rb"(?i)(?<=content-type: )[\w-]+/[\w.+-]+")
ENCODINGS = (b"base64", b"quoted-printable", b"8bit", b"7bit", b"x-uuencode", b"binary", b"unknown")
MEDIA_TYPES = (
    b"multipart/mixed", b"multipart/alternative", b"multipart/related", b"multipart/signed",
    b"multipart/encrypted", b"multipart/report", b"message/rfc822", b"message/partial",
    b"message/delivery-status", b"message/disposition-notification", b"message/external-body",
    b"text/plain", b"text/html", b"text/calendar; method=REQUEST", b"text/rfc822-headers",
    b"application/ms-tnef", b"application/pkcs7-mime", b"application/pgp-encrypted", b"x",
)  # fmt: skip
TOKENS = (*(token.encode("utf-8", "replace") for token in (*HTML, *HEADER, *MIME)), *BYTES)
Change = Callable[[bytes, random.Random], bytes]


def flip_bytes(source: bytes, draw: random.Random) -> bytes:
    changed = bytearray(source)
    for _ in range(draw.choice((1, 2, 8, 50))):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def truncate(source: bytes, draw: random.Random) -> bytes:
    return source[: draw.randrange(len(source))]


def remove_a_piece(source: bytes, draw: random.Random) -> bytes:
    start, end = _draw_span(source, draw)
    return source[:start] + source[end:]


def repeat_a_piece(source: bytes, draw: random.Random) -> bytes:
    start, end = _draw_span(source, draw)
    return source[:start] + source[start:end] * draw.choice((2, 3, 20, 300)) + source[end:]


def insert_a_token(source: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(source))
    token = draw.choice(TOKENS) * draw.choice((1, 1, 1, 5, 200))
    return source[:place] + token + source[place:]


def move_parts(source: bytes, draw: random.Random) -> bytes:
    """Return the message with the pieces between its boundaries in another order, some twice."""
    marks = [match.start() for match in BOUNDARY.finditer(source)]
    pieces = [source[a:b] for a, b in zip([0, *marks], [*marks, len(source)], strict=True) if a < b]
    first, rest = pieces[:1], pieces[1:]
    draw.shuffle(rest)
    return b"".join((*first, *rest, *rest[: draw.randrange(3)]))


def change_a_boundary(source: bytes, draw: random.Random) -> bytes:
    marks = list(BOUNDARY.finditer(source))
    if not marks:
        return source + b"\r\n--a--\r\n"
    mark, other = draw.choice(marks), draw.choice(marks)
    end = b"\r" if mark[0].endswith(b"\r") else b""
    line = mark[0].rstrip(b"\r")
    new = draw.choice(
        (b"", line[:-1], line + b"--", line + b"x", b" " + line, other[0].rstrip(b"\r"))
    )
    return source[: mark.start()] + new + end + source[mark.end() :]


def change_a_label(source: bytes, draw: random.Random) -> bytes:
    pattern, values = draw.choice(
        (
            (CHARSET, [label.encode() for label in CHARSETS]),
            (ENCODING, ENCODINGS),
            (MEDIA_TYPE, MEDIA_TYPES),
        )
    )
    found = list(pattern.finditer(source))
    if not found:
        return source
    match = draw.choice(found)
    return source[: match.start()] + draw.choice(values) + source[match.end() :]


def nest(source: bytes, draw: random.Random) -> bytes:
    """Return the message inside others, up to many levels deep."""
    for number in range(draw.choice((1, 1, 2, 40))):
        if len(source) > LARGEST:
            break
        if draw.random() < 0.5:
            source = b"Subject: outer\r\nContent-Type: message/rfc822\r\n\r\n" + source
        else:
            mark = b"--n%d" % number
            head = b"Content-Type: multipart/mixed; boundary=n%d\r\n\r\n" % number
            source = head + mark + b"\r\n" + source + b"\r\n" + mark + b"--\r\n"
    return source


def change_line_ends(source: bytes, draw: random.Random) -> bytes:
    return source.replace(b"\r\n", b"\n").replace(
        b"\n", draw.choice((b"\r\n", b"\r", b"\n", b"\n\n"))
    )


CHANGES: Sequence[Change] = (
    flip_bytes, truncate, remove_a_piece, repeat_a_piece, insert_a_token, move_parts,
    change_a_boundary, change_a_label, nest, change_line_ends,
)  # fmt: skip


def apply(source: bytes, changes: Sequence[tuple[Change, int]]) -> bytes:
    """Return the message after the changes, each with the seed of what it draws."""
    for change, seed in changes:
        if source:
            source = change(source, random.Random(seed))[:LARGEST]
    return source


def _draw_span(source: bytes, draw: random.Random) -> tuple[int, int]:
    start = draw.randrange(len(source))
    return start, min(len(source), start + draw.choice((1, 4, 30, 200, 2000)))
