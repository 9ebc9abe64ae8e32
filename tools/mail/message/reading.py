"""The one reading of a message for all providers: its tree of parts becomes texts, facts, notes and
attachments. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.message import Message as Headers
from typing import Any

from tools.mail.html.tags import bare_text
from tools.mail.message import calendar, lenient, mime, reports, sealed
from tools.mail.message.blocks import Block, is_worth_reading, join
from tools.mail.message.files import name_files
from tools.mail.message.mime import Tree
from tools.mail.message.parts import MAX_DEPTH, MAX_PARTS, AttachmentInfo, Part, file_of, root_of
from tools.mail.message.uuencoded import take_files
from tools.mail.text.decoding import read_as, text_of
from tools.mail.text.flowed import join_lines

READ_LIMIT = 1024 * 1024  # bytes of the plain texts together, and of the HTML
EXPANDED_BYTES = 8 * 1024**2  # of a part that holds other parts
INNER_DEPTH = 4  # of a message in a message in a message
MOST_INNER = 20
MOST_OPENED = 20  # signatures and pieces, of which each is read as a whole message
TNEF = ("application/ms-tnef", "application/vnd.ms-tnef")
MAILS = ("message/rfc822", "message/global")
PLAIN = ("text/plain", "text/markdown", "text/x-markdown", "text/x-patch", "text/x-diff")
ENRICHED = ("text/enriched", "text/richtext")
# Other forms of the text for some programs: https://amp.dev/documentation/guides-and-tutorials/email
OTHER_FORMS = ("text/x-amp-html", "text/watch-html")
LINES_OF_DATA = re.compile(rb"[A-Za-z0-9+/]{60}\r?\n[A-Za-z0-9+/]{20}")
TNEF_NOTE = "winmail.dat (TNEF): mailhub cannot read the files inside it."
CUT_NOTE = f"The text was cut after {READ_LIMIT:,} bytes."
LEFT_OUT = (
    f"Parts beyond the first {MAX_PARTS:,}, or nested deeper than {MAX_DEPTH}, were left out."
)


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A message inside a message, as its reader sees it. `own_mark` is unverified."""

    from_address: str
    from_name: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    subject: str
    date: datetime | None
    text: str | None
    html: str | None
    own_mark: str


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The text, the facts and the files of a message, as a reader sees them.

    `kind` is bounce, receipt, invitation or empty, and `facts` belong to it.
    """

    text: str | None = None
    html: str | None = None
    kind: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    attachments: tuple[AttachmentInfo, ...] = ()
    inner: tuple[Inner, ...] = ()


def read(tree: Tree, *, with_text: bool = True) -> Reading:
    """Return what a reader sees; without the text, only the attachments."""
    reader = _Reader(with_text=with_text, with_facts=with_text)
    blocks = reader.blocks(tree.root)
    text, html = join(blocks) if with_text else (None, None)
    if with_text:
        reader.find_plain_report(tree.block, text)
        reader.note(LEFT_OUT if tree.left_out else "")
    return Reading(
        text=text,
        html=html,
        kind=reader.kind,
        facts=reader.facts,
        notes=tuple(reader.notes),
        attachments=tuple(info for info, _ in reader.list_files()),
        inner=tuple(reader.inner),
    )


def count_files(root: Part) -> int:
    """Return the number of attachments, without loading any part."""
    reader = _Reader(with_text=False, with_facts=False, expands=False)
    reader.blocks(root)
    return len(reader.files)


def find_file(tree: Tree, number: str) -> tuple[AttachmentInfo, Part] | None:
    """Return the attachment with this number, also one that lists no longer name."""
    reader = _Reader(with_text=True, with_facts=False)
    reader.blocks(tree.root)
    known = {info.id: (info, part) for info, part in reader.list_files()}
    hidden = {
        part.number: (info_of(part, name), part)
        for part, name in _with_names([*reader.files, *reader.hidden])
    }
    return known.get(number) or hidden.get(number)


def info_of(part: Part, name: str) -> AttachmentInfo:
    size = part.size
    return AttachmentInfo(
        id=part.number,
        name=name,
        type=part.type,
        size=len(part.load(None)) if size is None else size,
        size_is_estimate=part.size_is_estimate,
        inline=part.is_inline,
        content_id=part.content_id,
        original_name=part.name if part.name != name else "",
    )


class _Reader:
    """The state of one reading: what was found on the way through the parts."""

    def __init__(
        self, *, with_text: bool, with_facts: bool, expands: bool = True, depth: int = 0
    ) -> None:
        self._with_text = with_text
        self._with_facts = with_facts
        self._with_inner = with_facts or depth > 0
        self._expands = expands
        self._depth = depth
        self._left = {"plain": READ_LIMIT, "html": READ_LIMIT, "opened": MOST_OPENED}
        self._blocks_of_reports = iter(range(reports.MOST_BLOCKS))
        self.kind = ""
        self.facts: dict[str, Any] = {}
        self.notes: list[str] = []
        self.files: list[Part] = []
        self.hidden: list[Part] = []
        self.inner: list[Inner] = []

    def list_files(self) -> list[tuple[AttachmentInfo, Part]]:
        return [(info_of(part, name), part) for part, name in _with_names(self.files)]

    def note(self, sentence: str) -> None:
        if sentence and sentence not in self.notes:
            self.notes.append(sentence)

    def blocks(self, part: Part) -> list[Block]:
        """Return the text of a part in order; note everything else that it holds."""
        match part.type:
            case "multipart/alternative":
                return self._alternative(part.children)
            case "multipart/related":
                return self._related(part)
            case "multipart/signed":
                return self._signed(part.children)
            case "multipart/encrypted":
                return self._encrypted(part)
            case "multipart/report":
                return self._report(part.children)
            case "multipart/appledouble":
                return self._mixed([*part.children[1:]] or part.children)
        if part.is_multipart:
            return self._mixed(part.children)
        return self._leaf(part)

    def find_plain_report(self, block: Headers, text: str | None) -> None:
        """Recognize a delivery report that has no parts."""
        if self.kind:
            return
        recipients = reports.find_in_text(block, text)
        if recipients:
            self.kind, self.facts = reports.classify(recipients, {})

    def _mixed(self, parts: Sequence[Part]) -> list[Block]:
        return [block for part in parts for block in self.blocks(part)]

    def _leaf(self, part: Part) -> list[Block]:
        sort = part.type
        if sort in sealed.PKCS7 or part.name.lower().endswith(".p7m"):
            return self._pkcs7(part)
        if sort in MAILS:
            self.files.append(part)
            self._read_inner(part)
            return []
        if sort in (*reports.DELIVERY, *reports.DISPOSITION):
            return self._report([part])
        if sort == "message/partial":
            return self._partial(part)
        if sort in calendar.TYPES:
            return self._calendar(part)
        if sort in TNEF or (part.name.lower() == "winmail.dat"):
            self.note(TNEF_NOTE)
        self.note(sealed.ENCRYPTED_RIGHTS if sort == sealed.RIGHTS else "")
        if sort in OTHER_FORMS and not part.name and part.disposition != "attachment":
            self.hidden.append(part)
            return []
        if self._is_text(part):
            return self._text(part)
        self.files.append(part)
        return []

    def _is_text(self, part: Part) -> bool:
        if part.type in ("text/plain", "text/html"):
            return not part.is_attachment
        readable = part.type in (*PLAIN, *ENRICHED)
        return readable and not part.name and part.disposition != "attachment"

    def _text(self, part: Part) -> list[Block]:
        form = "html" if part.type == "text/html" else "plain"
        if not self._with_text:
            return [Block(plain="")]
        limit = self._left[form]
        content = part.load(limit + 1)
        whole = len(content) <= limit
        self.note("" if whole else CUT_NOTE)
        self._left[form] -= min(len(content), limit)
        text = _text_of(part, content[:limit], whole=whole)
        if form == "html":
            return [Block(html=text)]
        if part.type in ENRICHED:
            text = bare_text(text)
        if part.parameters.get("format", "").lower() == "flowed":
            deletes = part.parameters.get("delsp", "").lower() == "yes"
            text = join_lines(text, deletes_blank=deletes)
        text, sentence = sealed.open_inline(text)
        self.note(sentence)
        return [Block(plain=self._without_files(part, text))]

    def _without_files(self, part: Part, text: str) -> str:
        """Return a text without the files in it, which become attachments."""
        text, files = take_files(text)
        for place, (name, content) in enumerate(files, start=1):
            self.files.append(file_of(f"{part.number}.{place}", name, content))
        return text

    def _alternative(self, parts: Sequence[Part]) -> list[Block]:
        """Return one block: of each form the last one that has words, because it is the best one.

        Files inside an alternative stay files.
        """
        plain: list[Block] = []
        rich: list[Block] = []
        for part in parts:
            if part.type in (*ENRICHED, *PLAIN[1:]) and len(parts) > 1:
                self.hidden.append(part)
                continue
            found = self.blocks(part)
            if any(block.html is not None for block in found):
                rich = found if not rich or any(block.has_words for block in found) else rich
            elif found:
                plain = found if not plain or any(block.has_words for block in found) else plain
        if not plain or not rich:
            return plain or rich
        text, _ = join(plain)
        own, html = join(rich)
        if not is_worth_reading(text, bare_text(html or "")):
            text = own
        return [Block(plain=text, html=html)]

    def _related(self, part: Part) -> list[Block]:
        """Return the text of the root; the other parts belong to it, whatever their order."""
        root = root_of(part)
        before = len(self.files)
        found = self.blocks(root) if root else []
        own = self.files[before:]
        del self.files[before:]
        for child in part.children:
            if child is root:
                self.files += own
            elif child.content_id and child.type in ("text/plain", "text/html", "text/css"):
                (self.files if child.name else self.hidden).append(child)
            else:
                found += self.blocks(child)
        return found

    def _signed(self, parts: Sequence[Part]) -> list[Block]:
        signatures = [part for part in parts[1:] if part.type in sealed.SIGNATURES]
        found = self._mixed([part for part in parts if part not in signatures])
        self.hidden += signatures
        self.note(sealed.SIGNED)
        return found

    def _encrypted(self, part: Part) -> list[Block]:
        is_pgp = "pgp" in part.parameters.get("protocol", "pgp").lower()
        self.note(sealed.ENCRYPTED_PGP if is_pgp else sealed.ENCRYPTED_SMIME)
        for child in part.leaves():
            (self.hidden if child.type == sealed.CONTROL else self.files).append(child)
        return []

    def _pkcs7(self, part: Part) -> list[Block]:
        if not self._expands:
            self.files.append(part)
            return []
        claimed = part.parameters.get("smime-type", "")
        sort = sealed.sort_of(part.load(sealed.HEAD_BYTES), claimed)
        opens = sort == "signed-data" and self._may_open()
        inside = sealed.unwrap(part.load(EXPANDED_BYTES)) if opens else None
        if inside is None:
            self.files.append(part)
            self.note(sealed.SIGNED if sort == "signed-data" else sealed.note_of(sort))
            return []
        self.hidden.append(part)
        self.note(sealed.SIGNED)
        return self.blocks(self._open(part, inside).root)

    def _report(self, parts: Sequence[Part]) -> list[Block]:
        found: list[Block] = []
        recipients: list[dict[str, str]] = []
        original: dict[str, str] = {}
        is_delivery = False
        for place, part in enumerate(parts):
            if part.type in reports.DELIVERY:
                is_delivery = True
                recipients += self._loaded(part, reports.read_delivery, [])
            elif part.type in reports.DISPOSITION:
                self.kind = "receipt"
                self.facts = self._loaded(part, reports.read_disposition, {})
            elif place and part.type in reports.ORIGINAL:
                original = self._loaded(part, reports.read_original, {})
            elif part.type not in reports.OTHER_PARTS:
                found += self.blocks(part)
                continue
            self.hidden.append(part)
        if is_delivery:
            self.kind, self.facts = reports.classify(recipients, original)
        return found

    def _loaded(self, part: Part, interpret: Any, nothing: Any) -> Any:
        if not self._with_facts:
            return nothing
        return interpret(part.load(reports.MOST_BYTES), self._blocks_of_reports)

    def _calendar(self, part: Part) -> list[Block]:
        method = part.parameters.get("method", "")
        is_file = bool(part.name) or part.disposition == "attachment"
        (self.files if is_file else self.hidden).append(part)
        if not self._with_facts or self.kind:
            return []
        text = text_of(part.load(calendar.MOST_CHARACTERS), part.charset or "utf-8")
        if is_file and not method and "\nMETHOD:" not in text.upper().replace("\r", ""):
            return []
        self.facts, sentence = calendar.read_invitation(text, method)
        self.kind = "invitation"
        self.note(sentence)
        return []

    def _partial(self, part: Part) -> list[Block]:
        number, total = (part.parameters.get(name, "") for name in ("number", "total"))
        number, total = (value if value.isdecimal() else "?" for value in (number, total))
        self.note(f"Part {number} of {total} of a split message.")
        if not self._expands:
            return []
        content = part.load(EXPANDED_BYTES)
        if number == "1" and self._may_open():
            self.hidden.append(part)
            return self.blocks(self._open(part, content).root)
        if LINES_OF_DATA.search(content):
            self.files.append(part)
            return []
        self.hidden.append(part)
        return self._text(replace(part, type="text/plain"))

    def _may_open(self) -> bool:
        """Count a part that is opened as a message; return False beyond the limit."""
        self._left["opened"] -= 1
        return self._left["opened"] >= 0

    def _open(self, part: Part, content: bytes) -> Tree:
        tree = mime.parse(content, inside=part.number)
        self.note(LEFT_OUT if tree.left_out else "")
        return tree

    def _read_inner(self, part: Part) -> None:
        """Read a message inside this one, and those inside it."""
        if not self._with_inner or self._depth >= INNER_DEPTH or len(self.inner) >= MOST_INNER:
            return
        tree = self._open(part, part.load(EXPANDED_BYTES))
        nested = _Reader(with_text=True, with_facts=False, depth=self._depth + 1)
        nested._left = self._left  # all of them together have the limits of one message
        text, html = join(nested.blocks(tree.root))
        for sentence in nested.notes:
            self.note(sentence)
        name, address = lenient.sender(tree.block)
        found = Inner(
            from_address=address,
            from_name=name,
            to=tuple(to for _, to in lenient.addresses(tree.block, "To")),
            cc=tuple(cc for _, cc in lenient.addresses(tree.block, "Cc")),
            subject=lenient.decode_text(tree.block["Subject"]),
            date=lenient.date_of(tree.block, None),
            text=text,
            html=html,
            own_mark=lenient.own_mark(tree.block),
        )
        self.inner += [found, *nested.inner][: MOST_INNER - len(self.inner)]


def _text_of(part: Part, content: bytes, *, whole: bool) -> str:
    # ISO-2022 and UTF-7 are ASCII with escapes: valid UTF-8, but not meant as UTF-8.
    is_utf_8 = (
        part.is_recoded
        and not content.isascii()
        and read_as(content, "utf_8", whole=whole) is not None
    )
    label = "utf-8" if is_utf_8 else part.charset
    return text_of(content, label, whole=whole, is_page=part.type == "text/html")


def _with_names(parts: Sequence[Part]) -> Iterator[tuple[Part, str]]:
    return zip(parts, name_files((part.name, part.type) for part in parts), strict=True)
