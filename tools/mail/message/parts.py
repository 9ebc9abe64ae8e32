"""A message as a tree of MIME parts, wherever it comes from, and its attachments. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tools.mail.message import lenient

MAX_DEPTH = 50
MAX_PARTS = 1000


@dataclass(frozen=True, kw_only=True)
class AttachmentInfo:
    """An attachment. `inline` is a picture inside the HTML, named there by `content_id` (without
    brackets).

    `name` is safe on every system; `original_name` is the sender's, if it differs. `size` is of
    the decoded file.
    """

    id: str
    name: str
    type: str
    size: int
    inline: bool = False
    content_id: str = ""
    original_name: str = ""
    size_is_estimate: bool = False


def _nothing(limit: int | None) -> bytes:
    return b""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a message; `number` is its IMAP section.

    `load(limit)` returns its decoded content, at most `limit` bytes. `size` is None if only loading
    shows it. `is_recoded`: its provider may have turned a text into UTF-8.
    """

    number: str
    type: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    disposition: str = ""
    encoding: str = ""
    name: str = ""
    content_id: str = ""
    size: int | None = None
    size_is_estimate: bool = False
    is_recoded: bool = False
    children: tuple["Part", ...] = ()
    load: Callable[[int | None], bytes] = field(default=_nothing, repr=False)

    @property
    def charset(self) -> str:
        return self.parameters.get("charset", "")

    @property
    def is_multipart(self) -> bool:
        return self.type.startswith("multipart/")

    @property
    def is_attachment(self) -> bool:
        return lenient.is_attachment(self.type, self.disposition, self.name)

    @property
    def is_inline(self) -> bool:
        return (
            bool(self.content_id)
            and self.disposition != "attachment"
            and self.type.startswith("image/")
        )

    def leaves(self) -> Iterator["Part"]:
        """Yield the parts with content, in order; an attached message is one of them."""
        if not self.is_multipart:
            yield self
        for child in self.children:
            yield from child.leaves()


def file_of(number: str, name: str, content: bytes) -> Part:
    """Return an attachment that is inside the content of another part."""
    return Part(
        number=number,
        type="application/octet-stream",
        name=name,
        disposition="attachment",
        size=len(content),
        load=lambda limit: content[:limit],
    )


def root_of(part: Part) -> Part | None:
    """Return the root of multipart/related: the part that `start` names, else the first text."""
    start = part.parameters.get("start", "").strip(" <>")
    named = (child for child in part.children if start and child.content_id == start)
    texts = (
        child for child in part.children if child.is_multipart or child.type.startswith("text/")
    )
    return next(named, next(texts, next(iter(part.children), None)))
