"""The tree of MIME parts in the bytes of a message. Pure, linear; no message makes it raise.

Python's own parser compares each line with each open boundary, and gives up on bytes that are not
as RFC 2046 wants them. Here a boundary is one whole line, a missing end is the end of the part
around it, and a text without an empty line above it is a text.
"""

import base64
import quopri
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from email import policy
from email.message import Message
from email.parser import BytesHeaderParser

from tools.mail.message import lenient
from tools.mail.message.head import mend_head
from tools.mail.message.parameters import first_word, media_type, parameters
from tools.mail.message.parts import MAX_DEPTH, MAX_PARTS, Part
from tools.mail.text.decoding import read_as

NAME = frozenset(range(0x21, 0x7F)) - {ord(":")}
GUESSED = re.compile(rb"(?i)\n--([^\n]{1,200})\n(?:content-[a-z-]{1,40}:|\r?\n)")
# RFC 2045 6.7: white space at the end of a line is not part of the text.
SOFT_BREAK = re.compile(rb"=[ \t]++(?=\r?\n)")
NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=]")


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A message as parts; `block` holds its headers, for `lenient`.

    `left_out` is True if there were too many parts, or they were nested too deep.
    """

    root: Part
    block: Message
    left_out: bool = False


def parse(source: bytes, *, inside: str = "") -> Tree:
    """Return the message in these bytes; `inside` is the number of the part that holds it, whose depth
    counts.
    """
    source = mend_head(source)
    splitter = _Splitter(source)
    depth = inside.count(".") + 1 if inside else 0
    root = splitter.part(1, len(source) + 1, inside, depth, "text/plain")
    if inside and not root.is_multipart:
        root = replace(root, number=f"{inside}.1")
    return Tree(
        root=root,
        block=lenient.headers(source, charset_of(root)),
        left_out=splitter.left_out,
    )


def text_part(root: Part) -> Part | None:
    """Return the first part that is shown as the message's text, plain text first."""
    texts = [part for part in root.leaves() if not part.is_attachment]
    return next((part for part in texts if part.type == "text/plain"), next(iter(texts), None))


def charset_of(root: Part) -> str:
    """Return the charset of the message's text, or an empty string."""
    part = text_part(root)
    return part.charset if part else ""


def decode_transfer(content: bytes, encoding: str) -> bytes:
    """Return the bytes of a part without the transfer encoding."""
    match encoding:
        case "base64":
            return _decode_base64(content)
        case "quoted-printable":
            return quopri.decodestring(SOFT_BREAK.sub(b"=", content))
    return content


def decode_text_transfer(content: bytes, encoding: str) -> bytes:
    """Return the bytes of a text, also if a program only says that it is base64."""
    decoded = decode_transfer(content, encoding)
    if encoding != "base64" or b" " not in content.strip() or read_as(decoded, "utf_8") is not None:
        return decoded
    return content if NOT_BASE64.search(b"".join(content.split())) else decoded


def _decode_base64(content: bytes) -> bytes:
    """Decode the complete groups: a fetch may end in the middle of a group, and some programs pad
    every piece.
    """
    clean = NOT_BASE64.sub(b"", content)
    return b"".join(
        base64.b64decode(piece[: len(piece) // 4 * 4] + _last_group(piece))
        for piece in clean.split(b"=")
        if piece
    )


def _last_group(clean: bytes) -> bytes:
    rest = clean[len(clean) // 4 * 4 :]
    return rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""


class _Splitter:
    def __init__(self, source: bytes) -> None:
        self._source = b"\n" + source  # so that every line has a line end before it
        self._parts = MAX_PARTS
        # So that a hostile message cannot ask for the detection of a charset too often.
        self._left: Iterator[int] = iter(range(lenient.MOST_DETECTED))
        self.left_out = False

    def part(self, start: int, end: int, number: str, depth: int, usual: str) -> Part:
        """Return the part in this range; `usual` is its type if it names none."""
        body = self._find_body(start, end)
        block = _headers(self._source[start : min(body, start + lenient.BLOCK_BYTES)])
        kind = media_type(block.get("content-type", b"")) or usual
        named = parameters(block.get("content-type", b""), self._left)
        if kind.startswith("multipart/"):
            ranges = self._find_ranges(named.get("boundary", ""), body, end)
            if ranges and depth < MAX_DEPTH:
                inside = "message/rfc822" if kind == "multipart/digest" else "text/plain"
                children = self._children(ranges, number, depth, inside)
                return Part(number=number, type=kind, parameters=named, children=children)
            self.left_out = self.left_out or bool(ranges)
            if ranges:
                return Part(number=number, type=kind, parameters=named)
            kind, named = "text/plain", {}  # a reader sees its bytes as a text
        disposed = block.get("content-disposition", b"")
        file = parameters(disposed, self._left)
        encoding = first_word(block.get("content-transfer-encoding", b""))
        return Part(
            number=number or "1",
            type=kind,
            parameters=named,
            disposition=first_word(disposed),
            encoding=encoding,
            name=lenient.decode_text(file.get("filename") or named.get("name") or ""),
            content_id=block.get("content-id", b"").decode("ascii", "replace").strip().strip(" <>"),
            load=_loader(
                self._source, body, end, encoding, is_text=kind in ("text/plain", "text/html")
            ),
        )

    def _children(
        self, ranges: list[tuple[int, int]], number: str, depth: int, usual: str
    ) -> tuple[Part, ...]:
        found = []
        for place, (start, end) in enumerate(ranges, start=1):
            if self._parts <= 0:
                self.left_out = True
                break
            self._parts -= 1
            inside = f"{number}.{place}" if number else str(place)
            found.append(self.part(start, end, inside, depth + 1, usual))
        return tuple(found)

    def _find_body(self, start: int, end: int) -> int:
        """Return where the content begins: after the empty line, or at a line that is no header."""
        place = start
        while place < end:
            line_end = self._source.find(b"\n", place, end) + 1 or end
            line = self._source[place:line_end]
            if not line.rstrip(b"\r\n"):
                return line_end
            if not _is_header(line) or (place == start and line[:1] in b" \t"):
                return place
            place = line_end
        return end

    def _find_ranges(self, boundary: str, start: int, end: int) -> list[tuple[int, int]]:
        mark = boundary.encode("utf-8", "surrogateescape").rstrip()
        found = self._split(mark, start, end) if mark else []
        if found:
            return found
        # The header names another boundary than the one that is used, or none.
        guess = GUESSED.search(self._source, start - 1, end)
        return self._split(guess[1].rstrip(), start, end) if guess else []

    def _split(self, mark: bytes, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of the parts between the lines with this boundary.

        The line end before a boundary belongs to the boundary. After the last one, a part ends
        where the part around it does.
        """
        found: list[tuple[int, int]] = []
        first: int | None = None
        place = start - 1
        while len(found) <= MAX_PARTS:
            line = self._find_line(b"\n--" + mark, place, end)
            last = self._before_line_end(line[0], start) if line else end
            if first is not None:
                found.append((first, max(first, last)))
            if line is None:
                break
            _, place, opens = line
            first = min(place + 1, end) if opens else None
        return found

    def _find_line(self, mark: bytes, start: int, end: int) -> tuple[int, int, bool] | None:
        """Return the next line that is a boundary: its beginning, its end, and True if it opens a
        part. Lines that only begin like it are others.
        """
        while (place := self._source.find(mark, start, end)) >= 0:
            line_end = self._source.find(b"\n", place + 1, end)
            line_end = end if line_end < 0 else line_end
            rest = self._source[place + len(mark) : line_end].rstrip(b" \t\r")
            if rest in (b"", b"--"):
                return place, line_end, not rest
            start = line_end
        return None

    def _before_line_end(self, place: int, start: int) -> int:
        """Return the place before the line end that belongs to a boundary."""
        return max(place - self._source.startswith(b"\r", place - 1), start)


def _is_header(line: bytes) -> bool:
    """Return True for a field, for the continuation of one, and for the first line of an mbox."""
    name, colon, _ = line.partition(b":")
    return (
        line[:1] in b" \t"
        or line.startswith(b"From ")
        or bool(colon and NAME.issuperset(name.rstrip(b" \t")))
    )


def _loader(
    source: bytes, start: int, end: int, encoding: str, *, is_text: bool
) -> Callable[[int | None], bytes]:
    decode = decode_text_transfer if is_text else decode_transfer

    def load(limit: int | None) -> bytes:
        return decode(source[start:end], encoding)[:limit]

    return load


def _headers(block: bytes) -> dict[str, bytes]:
    parsed = BytesHeaderParser(policy=policy.compat32).parsebytes(block)
    found: dict[str, bytes] = {}
    for name, value in parsed.raw_items():
        raw = str(value).encode("utf-8", "surrogateescape")
        found.setdefault(name.lower(), raw.replace(b"\r", b"").replace(b"\n", b""))
    return found
