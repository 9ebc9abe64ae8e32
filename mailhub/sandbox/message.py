"""One message in the form that pymap needs: its bytes from the store, parsed on demand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from email.headerregistry import BaseHeader, HeaderRegistry
from typing import Any

from pymap.bytes import WriteStream
from pymap.interfaces.message import LoadedMessageInterface
from pymap.message import BaseLoadedMessage, BaseMessage
from pymap.mime import MessageContent
from pymap.mime.cte import MessageDecoder
from pymap.mime.parsed import ParsedHeaders
from pymap.parsing.primitives import List, String
from pymap.parsing.response.fetch import BodyStructure, ContentBodyStructure, EnvelopeStructure
from pymap.parsing.specials import FetchRequirement, Flag

from mailhub.sandbox.store import Entry, Store

PARSED_MESSAGES = 1000
PARSED_BYTES_EACH = 64 * 1024


class TolerantRegistry(HeaderRegistry):
    """A registry that reads raw UTF-8; a header that the standard library cannot read is empty."""

    def __call__(self, name: str, value: Any) -> BaseHeader:
        text = str(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        try:
            return super().__call__(name, text)
        except Exception:
            # Broken addresses make the parser raise IndexError, AttributeError and others, which
            # would end the connection in the middle of an answer.
            return super().__call__(name, "")


# pymap has no other place to configure how headers are read.
ParsedHeaders._registry = TolerantRegistry()


class Structure(BodyStructure):
    """A BODYSTRUCTURE as RFC 3501 defines it.

    pymap writes the disposition as one string instead of a list, and counts the header of a part as
    content.
    """

    def __init__(self, found: BodyStructure, content: MessageContent) -> None:
        if isinstance(found, ContentBodyStructure):
            found.size = len(content.body)
            if hasattr(found, "lines"):
                found.lines = bytes(content.body).count(b"\n")
        self._found = found

    @property
    def _value(self) -> List:
        return self._found._value

    @property
    def extended(self) -> List:
        items = list(self._found.extended)
        disposition = self._found.content_disposition
        if disposition is not None:
            parameters = [
                String.build(text) for pair in disposition.params.items() for text in pair
            ]
            # Every structure ends with disposition, language and location.
            items[-3] = List(
                [
                    String.build(disposition.content_disposition or "attachment"),
                    List(parameters) if parameters else String.build(None),
                ]
            )
        return List(items)

    def write(self, writer: WriteStream) -> None:
        self._value.write(writer)

    def __bytes__(self) -> bytes:
        return bytes(self._value)


class Contents:
    """A cache of small parsed messages from the store, because a search reads all of a folder."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parsed: OrderedDict[int, MessageContent] = OrderedDict()

    def load(self, message: int) -> MessageContent | None:
        if message in self._parsed:
            self._parsed.move_to_end(message)
            return self._parsed[message]
        raw = self._store.raw(message)
        if raw is None:
            return None
        content = MessageContent.parse(raw)
        if len(raw) <= PARSED_BYTES_EACH:
            self._parsed[message] = content
            if len(self._parsed) > PARSED_MESSAGES:
                self._parsed.popitem(last=False)
        return content


class LoadedMessage(BaseLoadedMessage):
    """A message with its content, searched in the form that a reader sees."""

    def contains(self, value: bytes) -> bool:
        """Return True if a header or a text part contains the value; pymap itself would search only
        the encoded bytes.
        """
        if super().contains(value):
            return True
        wanted = value.decode("utf-8", "replace").casefold()
        return any(wanted in text.casefold() for text in self._texts())

    @classmethod
    def _get_envelope_structure(cls, msg: MessageContent) -> EnvelopeStructure:
        envelope = super()._get_envelope_structure(msg)
        if envelope.date is not None and envelope.date.datetime is None:
            # The Date header is invalid; pymap would fail to print it.
            envelope.date = None
        return envelope

    @classmethod
    def _get_body_structure(cls, msg: MessageContent) -> BodyStructure:
        return Structure(super()._get_body_structure(msg), msg)

    def _texts(self) -> Iterator[str]:
        if self._content is None:
            return
        yield from (
            str(header) for name in self._content.header.parsed for header in self.get_header(name)
        )
        for part in self._content.walk():
            if part.body.content_type.maintype == "text":
                charset = part.body.content_type.params.get("charset", "utf-8")
                try:
                    yield bytes(MessageDecoder.of(part.header).decode(part.body)).decode(
                        charset, "replace"
                    )
                except (LookupError, NotImplementedError, ValueError):
                    # An unknown charset or transfer encoding, or broken base64: there is no text
                    # to search.
                    continue


class Message(BaseMessage):
    """One message of a folder; its bytes stay in the store until they are needed."""

    __slots__ = ["_contents", "id", "recent"]

    def __init__(self, entry: Entry, contents: Contents, *, expunged: bool = False) -> None:
        flags = {Flag(flag) for flag in entry.flags}
        super().__init__(entry.uid, entry.received, flags, expunged=expunged)
        self.id = entry.id
        self.recent = entry.recent
        self._contents = contents

    async def load_content(self, requirement: FetchRequirement) -> LoadedMessageInterface:
        if requirement.has_none(FetchRequirement.CONTENT):
            return LoadedMessage(self, requirement, None)
        return LoadedMessage(self, requirement, self._contents.load(self.id))

    def as_expunged(self) -> Message:
        """Return the same message as expunged, for a connection that does not know of it yet."""
        flags = frozenset(str(flag) for flag in self.permanent_flags)
        entry = Entry(
            id=self.id, uid=self.uid, received=self.internal_date, flags=flags, recent=False
        )
        return Message(entry, self._contents, expunged=True)
