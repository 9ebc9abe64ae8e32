"""Reading BODYSTRUCTURE as servers really send it. Pure."""

from collections.abc import Callable, Iterator
from typing import Any

from tools.mail.message import lenient
from tools.mail.message.mime import decode_transfer
from tools.mail.message.parameters import join
from tools.mail.message.parts import MAX_DEPTH, MAX_PARTS, Part
from tools.mail.text.decoding import text_of, without_controls

Load = Callable[[str, str, int | None], bytes]  # section, encoding, limit


def tree_of(structure: Any, load: Load = lambda *_: b"") -> tuple[Part, bool]:
    """Return a BODYSTRUCTURE as parts, and True if some were left out: nested too deep, or too
    many.
    """
    reader = _Reader(load)
    root = reader.part(structure, "", 0) if structure is not None else None
    return root or Part(number="1", type="multipart/mixed"), reader.left_out


class _Reader:
    def __init__(self, load: Load) -> None:
        self._load = load
        self._left: Iterator[int] = iter(range(lenient.MOST_DETECTED))
        self._parts = MAX_PARTS
        self.left_out = False

    def part(self, structure: Any, number: str, depth: int) -> Part | None:
        if depth > MAX_DEPTH:
            self.left_out = True
            return None
        if structure.is_multipart:
            return self._multipart(structure, number, depth)
        if len(structure) < 7:
            return (
                None  # a multipart without parts; some servers describe it as a type without a size
            )
        return self._leaf(structure, number or "1")

    def _multipart(self, structure: Any, number: str, depth: int) -> Part:
        found = []
        for index, part in enumerate(structure[0], start=1):
            if self._parts <= 0:
                self.left_out = True
                break
            self._parts -= 1
            inside = f"{number}.{index}" if number else str(index)
            child = self.part(part, inside, depth + 1)
            found += [child] if child else []
        subtype = _text(structure[1]).lower() if len(structure) > 1 else ""
        return Part(
            number=number,
            type=f"multipart/{subtype or 'mixed'}",
            parameters=self._parameters(structure[2]) if len(structure) > 2 else {},
            children=tuple(found),
        )

    def _leaf(self, structure: Any, number: str) -> Part:
        kind = f"{_text(structure[0])}/{_text(structure[1])}".lower()
        parameters = self._parameters(structure[2])
        # RFC 3501 7.4.2: before the extension data, text has a line count, message/rfc822 an
        # envelope, a body and lines.
        after = 8 if kind.startswith("text/") else 10 if kind == "message/rfc822" else 7
        given = structure[after + 1] if len(structure) > after + 1 else None
        disposition = given if isinstance(given, tuple) else ()
        named = self._parameters(disposition[1]) if len(disposition) > 1 else {}
        encoding = _text(structure[5]).lower()
        size = structure[6] if isinstance(structure[6], int) else 0
        return Part(
            number=number,
            type=kind,
            parameters=parameters,
            encoding=encoding,
            size=decoded_size(size, encoding),
            size_is_estimate=encoding in ("base64", "quoted-printable"),
            name=lenient.decode_text(named.get("filename") or parameters.get("name") or ""),
            disposition=_text(disposition[0]).lower() if disposition else "",
            content_id=_text(structure[3]).strip(" <>"),
            load=lambda limit: self._load(number, encoding, limit),
        )

    def _parameters(self, value: object) -> dict[str, str]:
        if not isinstance(value, tuple):
            return {}
        items = [item if isinstance(item, bytes) else b"" for item in value]
        return join(zip(items[::2], items[1::2], strict=False), self._left)


def decoded_size(size: int, encoding: str) -> int:
    """Return the bytes of the decoded attachment: three quarters for base64, minus its line
    ends.
    """
    return size * 73 // 100 if encoding == "base64" else size


def part_text(content: bytes, part: Part, *, whole: bool = True) -> str:
    """Return the decoded text of a part; a wrong encoding or charset loses characters, never the
    message.
    """
    return text_of(
        decode_transfer(content, part.encoding),
        part.charset,
        whole=whole,
        is_page=part.type == "text/html",
    )


def snippet(content: bytes, part: Part) -> str:
    """Return the first words of a part of which only the beginning was fetched."""
    return lenient.first_words(part_text(content, part, whole=False), html=part.type == "text/html")


def _text(value: object) -> str:
    return without_controls(value.decode("ascii", "replace")) if isinstance(value, bytes) else ""
