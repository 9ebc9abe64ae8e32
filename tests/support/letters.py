"""The messages of tests/corpus/mail: their bytes, and what a reader must and must not see of each.

README.md there explains the files.
"""

import base64
import quopri
import re
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "corpus" / "mail"
DIRECTIVE = re.compile(r"⟦(\S+)(?: ([^⟧]*))?⟧")
BYTE = re.compile(rb"\\x([0-9a-f]{2})")
SENDER, DATE = "mira@northwind.example", "2026-11-02T09:00:00Z"
HEAD = """From: Mira Holm <mira@northwind.example>
To: Ada Lovelace <ada@lovelace.example>
Date: Mon, 02 Nov 2026 10:00:00 +0100
Message-ID: <{id}@northwind.example>
MIME-Version: 1.0
"""


@dataclass(frozen=True, kw_only=True)
class File:
    """An attachment as a reader sees it. A member that is None or "" is not compared."""

    name: str = ""
    matches: str = ""  # a pattern for a generated name
    original_name: str | None = None
    type: str = ""
    content: str | None = None
    inline: bool | None = None

    @property
    def bytes(self) -> bytes | None:
        return None if self.content is None else expand(self.content)


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A message and its expectations. The texts of `must_read` have this order."""

    id: str
    fact: str
    raw: str
    subject: str | None = None
    sender: str | None = None
    name: str | None = None
    listed: bool = True  # False: what a list shows is the provider's own reading of the headers
    to: list[str] | None = None
    cc: list[str] | None = None
    date: str | None = None  # "arrival" if the message has no usable date
    body: str | None = None
    must_read: list[str] = field(default_factory=list)
    must_not_read: list[str] = field(default_factory=list)
    kind: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] | None = None
    files: list[File] = field(default_factory=list)
    may_list: list[str] = field(default_factory=list)
    quoted: list[str] = field(default_factory=list)
    hidden: bool = False
    damaged: bool = False  # characters that nobody can read are shown as U+FFFD
    eol: str = "\r\n"
    content: bytes | None = None  # instead of `raw`

    @property
    def source(self) -> bytes:
        """Return the bytes of the message."""
        if self.content is not None:
            return self.content
        head, has_head, rest = self.raw.rpartition("⟦head⟧\n")
        if has_head:
            subject = f"Subject: {self.id}\n" if self.subject is None else ""
            head += HEAD.format(id=self.id) + subject
        return expand(head + rest).replace(b"\r\n", self.eol.encode())


def list_classes() -> list[str]:
    """Return the names of the files, each of which has messages of one class."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_letters(name: str) -> list[Letter]:
    """Return the messages of one file; raises TypeError for a field that does not exist."""
    rows = tomllib.loads((FOLDER / f"{name}.toml").read_text())["message"]
    return [_read_letter(row) for row in rows]


def expand(text: str) -> bytes:
    """Return the bytes that a text of the corpus writes, with CRLF at the end of each line."""
    pieces, place = [], 0
    for found in DIRECTIVE.finditer(text):
        pieces += [_plain(text[place : found.start()]), _directed(found[1], found[2] or "")]
        place = found.end()
    return b"".join([*pieces, _plain(text[place:])])


def _read_letter(row: dict[str, Any]) -> Letter:
    known = {each.name for each in fields(Letter)}
    usual = {"sender": SENDER, "date": DATE} if "⟦head⟧" in row["raw"] else {}
    given = {"sender" if name == "from" else name: value for name, value in row.items()}
    if unknown := given.keys() - known:
        raise TypeError(f"{row['id']}: {unknown}")
    files = [File(**each) for each in given.pop("files", [])]
    return Letter(**{**usual, **given}, files=files)


def _plain(text: str) -> bytes:
    content = text.replace("\n", "\r\n").encode()
    return BYTE.sub(lambda found: bytes([int(found[1], 16)]), content)


def _directed(name: str, argument: str) -> bytes:
    first, _, rest = argument.partition(" ")
    match name:
        case "repeat":
            return _plain(rest.replace("\\n", "\n")) * int(first)
        case "b64":
            return base64.encodebytes(_encoded(first, rest)).strip().replace(b"\n", b"\r\n")
        case "qp":
            return quopri.encodestring(_encoded(first, rest)).replace(b"=\n", b"=\r\n")
        case "word":
            label, content = first.partition("=")[0], _encoded(first, rest)
            return b"=?%s?B?%s?=" % (label.encode(), base64.b64encode(content))
    return _encoded(name, argument)


def _encoded(charset: str, text: str) -> bytes:
    """Return the bytes of a text in a charset, of which `label=codec` names the codec."""
    if charset == "hex":
        return bytes.fromhex(text)
    return text.replace("\n", "\r\n").encode(charset.rpartition("=")[2])
