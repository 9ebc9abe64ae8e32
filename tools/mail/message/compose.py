"""The composition of a complete message from a request, and a check of the result. Pure."""

import base64
import hashlib
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.parser import BytesFeedParser
from email.utils import parsedate_to_datetime
from typing import Any, Literal, cast

from tools.mail.message.content import Content, Original
from tools.mail.text.addresses import WORD_BYTES, header_text

PRIORITY = {"high": "1 (Highest)", "low": "5 (Lowest)"}
# The ids that References and In-Reply-To may hold: the ids of foreign mail are foreign text.
MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,500}>")
# Without "?", which an encoded word needs: Python decodes one and writes its line breaks as they are.
CONTENT_ID = re.compile(r"[A-Za-z0-9!#$%&'*+/=^_`{|}~.@-]{1,250}")
MAX_REFERENCES = 100
PART_HEADERS = {
    "content-type",
    "content-transfer-encoding",
    "content-disposition",
    "content-id",
    "mime-version",
}
# Of attachments; nearly every server accepts that size in base64.
MAX_TOTAL_BYTES = 25 * 1024 * 1024
PIECE = 64 * 1024
# Possessive: a subject is foreign text, and backtracking over its blanks would take quadratic time.
REPLY_PREFIX = re.compile(r"^(?:\s*+(?:re|aw|sv|antw)\s*+(?:\[\d++\])?\s*+:\s*+)++", re.IGNORECASE)
FORWARD_PREFIX = re.compile(r"^(?:\s*+(?:fwd?|wg)\s*+:\s*+)++", re.IGNORECASE)
MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}")
SUBJECT_CHARACTERS = 255
# Of an encoded word, so that the first line has at most 76 characters (RFC 2047).
SUBJECT_BYTES = 39


class _Wire(policy.EmailPolicy):
    """A policy: lines end in CRLF, 8-bit bodies are encoded for any server, lists of ids and of named
    people fold between their entries, and a subject with special characters is written as a whole.

    The library would fold a long list of ids into encoded words, which no mail program reads as
    ids. Of names with special characters it loses the quotes, and it joins encoded words to other
    text and loses spaces.
    """

    def _fold_own(self, name: str, value: Any) -> str | None:
        if name.lower() in ("references", "in-reply-to", "content-id"):
            return f"{name}: " + "\r\n ".join(str(value).split()) + "\r\n"
        if name.lower() == "subject" and not str(value).isascii():
            return f"{name}: {_encode_words(str(value), SUBJECT_BYTES)}\r\n"
        entries = value.addresses if name.lower() in ("from", "to", "cc") else ()
        if not any(each.display_name for each in entries):
            return None
        return f"{name}: " + ",\r\n ".join(map(_write_entry, entries)) + "\r\n"

    def fold(self, name: str, value: str) -> str:
        return self._fold_own(name, value) or super().fold(name, value)

    def fold_binary(self, name: str, value: str) -> bytes:
        written = self._fold_own(name, value)
        return written.encode("ascii") if written else super().fold_binary(name, value)


def _write_entry(entry: Address) -> str:
    """Return a person as a header has them: the name quoted, or in encoded words."""
    name = entry.display_name
    if name.isascii():
        return _with_name(entry.addr_spec, name)
    return f"{_encode_words(name, WORD_BYTES)}\r\n <{entry.addr_spec}>"


def _encode_words(text: str, most: int) -> str:
    """Return the text in encoded words of at most so many bytes, each with whole characters."""
    words = [b""]
    for character in text:
        if len(words[-1]) + len(character.encode()) > most:
            words.append(b"")
        words[-1] += character.encode()
    return "\r\n ".join(f"=?utf-8?b?{base64.b64encode(each).decode()}?=" for each in words)


WIRE = _Wire(linesep="\r\n", cte_type="7bit", max_line_length=78)


class ComposeError(ValueError):
    """The generated message differs from the request; it must not leave."""


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file in a message; `content_id`, without brackets, makes it a picture inside the HTML.

    The id of a foreign picture is foreign text: with one that no header can hold, it is an ordinary
    file.
    """

    name: str
    type: str
    content: bytes = field(repr=False)
    content_id: str = ""

    def __post_init__(self) -> None:
        if not CONTENT_ID.fullmatch(self.content_id):
            object.__setattr__(self, "content_id", "")

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def as_json(self) -> dict[str, str | int]:
        return {
            "name": self.name,
            "type": self.type,
            "size": len(self.content),
            "sha256": self.sha256,
        }


@dataclass(frozen=True, kw_only=True)
class Request:
    """A mail to compose.

    Addresses are bare addr-specs in ASCII; `from_name` is the mailbox's own name, and `names` has
    those of recipients, by address in lower case.
    """

    kind: Literal["send", "reply", "forward"] = "send"
    from_address: str
    from_name: str = ""
    to: tuple[str, ...]
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    subject: str
    content: Content
    importance: Literal["low", "normal", "high"] = "normal"
    attachments: tuple[Attachment, ...] = ()
    in_reply_to: str = ""
    references: tuple[str, ...] = ()
    save_to_sent: bool = True


@dataclass(frozen=True, kw_only=True)
class OutgoingMessage:
    """The complete message. `source` has the bytes that leave, without Bcc and without Date.

    `add_date` adds the Date when the mail leaves, because a person may decide a day later.
    """

    request: Request
    message_id: str
    source: bytes

    @property
    def recipients(self) -> tuple[str, ...]:
        """Return the recipients of the envelope, Bcc included."""
        return (*self.request.to, *self.request.cc, *self.request.bcc)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source).hexdigest()


def new_message(request: Request, *, message_id: str = "") -> OutgoingMessage:
    """Compose the message, with a new Message-ID or the given one, and check its bytes against the
    request.

    Raises ComposeError if they differ.
    """
    message_id = message_id or f"<{uuid.uuid4().hex}@{request.from_address.rpartition('@')[2]}>"
    message = EmailMessage(policy=WIRE)
    message["From"] = _with_name(request.from_address, request.from_name)
    for header, addresses in (("To", request.to), ("Cc", request.cc)):
        if addresses:
            message[header] = ", ".join(
                _with_name(each, request.names.get(each.lower(), "")) for each in addresses
            )
    message["Subject"] = request.subject
    message["Message-ID"] = message_id
    if request.in_reply_to:
        message["In-Reply-To"] = request.in_reply_to
    if request.references:
        message["References"] = " ".join(request.references)
    if request.importance != "normal":
        message["Importance"] = request.importance
        message["X-Priority"] = PRIORITY[request.importance]
    _fill(message, request)
    outgoing = OutgoingMessage(
        request=request, message_id=message_id, source=message.as_bytes(policy=WIRE)
    )
    check(outgoing)
    return outgoing


def _fill(message: EmailMessage, request: Request) -> None:
    content = request.content
    message.set_content(_end_line(content.text))
    inline = [a for a in request.attachments if a.content_id and content.html is not None]
    if content.html is not None:
        message.add_alternative(_end_line(content.html), subtype="html")
        page = message.get_payload(1)
        assert isinstance(page, EmailMessage)
        for picture in inline:
            maintype, subtype = picture.type.split("/", 1)
            page.add_related(
                picture.content,
                maintype,
                subtype,
                cid=f"<{picture.content_id}>",
                disposition="inline",
                filename=picture.name,
            )
    for attachment in request.attachments:
        if attachment not in inline:
            maintype, subtype = attachment.type.split("/", 1)
            message.add_attachment(attachment.content, maintype, subtype, filename=attachment.name)


def check(outgoing: OutgoingMessage) -> None:
    """Parse the generated bytes, and compare headers, addresses, texts and attachments with the
    request.

    Raises ComposeError if they differ.
    """
    request = outgoing.request
    parsed = parse(outgoing.source)
    content = request.content
    to, cc = _mailboxes(parsed, "To"), _mailboxes(parsed, "Cc")
    comparisons = {
        "headers": (_header_names(parsed), _expected_headers(request)),
        "from": (addresses_in(parsed, "From"), (request.from_address,)),
        "to": (_bare(to), request.to),
        "cc": (_bare(cc), request.cc),
        "names": (_names(*to, *cc), _expected_names(request)),
        "subject": (str(parsed["Subject"]), request.subject),
        "message-id": (str(parsed["Message-ID"]), outgoing.message_id),
        "in-reply-to": (str(parsed["In-Reply-To"] or ""), request.in_reply_to),
        "references": (tuple(str(parsed["References"] or "").split()), request.references),
        "text": (_part(parsed, "plain"), content.text.strip("\n")),
        "html": (
            _part(parsed, "html"),
            content.html.strip("\n") if content.html is not None else None,
        ),
        "attachments": (
            Counter((a.name, a.type, a.sha256) for a in read_attachments(parsed)),
            Counter((a.name, a.type, a.sha256) for a in request.attachments),
        ),
        "parts": (sorted(_find_odd_headers(parsed)), []),
    }
    wrong = [name for name, (is_, should_be) in comparisons.items() if is_ != should_be]
    if wrong or parsed.defects:
        raise ComposeError(f"the generated message differs in: {', '.join(wrong) or 'structure'}")


def names_in(source: bytes) -> dict[str, str]:
    """Return the names of recipients in a message that mailhub composed."""
    parsed = parse(source)
    return _names(*_mailboxes(parsed, "To"), *_mailboxes(parsed, "Cc"))


def parse(source: bytes) -> EmailMessage:
    """Return the parsed message, fed in pieces: at once it takes six times its size."""
    parser = BytesFeedParser(policy=policy.default)
    for begin in range(0, len(source), PIECE):
        parser.feed(source[begin : begin + PIECE])
    return cast(EmailMessage, parser.close())


def attachments_in(source: bytes) -> Iterator[Attachment]:
    """Yield the attachments of a message that mailhub composed."""
    return read_attachments(parse(source))


def read_attachments(parsed: EmailMessage) -> Iterator[Attachment]:
    """Yield the attachments of a message that mailhub composed."""
    for part in _leaves(parsed):
        if part.get_content_disposition() is not None:
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes)
            yield Attachment(
                name=part.get_filename() or "",
                type=part.get_content_type(),
                content=content,
                content_id=str(part["Content-ID"] or "").strip(" <>"),
            )


def addresses_in(parsed: EmailMessage, header: str) -> tuple[str, ...]:
    """Return the bare addresses of a header."""
    return _bare(_mailboxes(parsed, header))


def _mailboxes(parsed: EmailMessage, header: str) -> tuple[Address, ...]:
    """Return the addresses of a header with their names. Each look at a header parses it again."""
    found = parsed[header]
    return found.addresses if found else ()


def _bare(mailboxes: Iterable[Address]) -> tuple[str, ...]:
    return tuple(each.addr_spec for each in mailboxes)


def add_date(source: bytes, *, date: str, bcc: tuple[str, ...] = ()) -> bytes:
    """Return the bytes with their Date in front; `bcc` is for the copy in Sent or a draft, never
    for the wire.

    `date` is an RFC 5322 date.
    """
    parsedate_to_datetime(date)  # raises ValueError if it is not one
    head = f"Date: {date}\r\n"
    if bcc:
        head += "Bcc: " + ",\r\n ".join(header_text(address) for address in bcc) + "\r\n"
    return head.encode("ascii") + source


def reply_subject(subject: str) -> str:
    """Return the subject with one `Re:`, even if it had several."""
    return _short(f"Re: {REPLY_PREFIX.sub('', subject).strip()}".strip())


def forward_subject(subject: str) -> str:
    return _short(f"Fwd: {FORWARD_PREFIX.sub('', subject).strip()}".strip())


def chain(original: Original) -> tuple[str, ...]:
    """Return the References of an answer: the whole chain and the message itself (RFC 5322
    3.6.4).
    """
    ids = [
        known
        for known in (*original.references, original.message_id)
        if MESSAGE_ID.fullmatch(known)
    ]
    unique = tuple(dict.fromkeys(ids))
    # The first id names the conversation and the last the message, so ids in the middle are left
    # out.
    return unique if len(unique) <= MAX_REFERENCES else (unique[0], *unique[1 - MAX_REFERENCES :])


def parent(original: Original) -> str:
    """Return the In-Reply-To of an answer; empty if the original has no usable id."""
    return original.message_id if MESSAGE_ID.fullmatch(original.message_id) else ""


def media_type(claimed: str) -> str:
    """Return a type that is valid in a header.

    An attached message is sent as plain bytes, because its own encoding could not survive 7-bit
    transport (RFC 2046 5.2.1).
    """
    claimed = claimed.lower()
    if not MEDIA_TYPE.fullmatch(claimed) or claimed.startswith(("message/", "multipart/")):
        return "application/octet-stream"
    return claimed


def _short(subject: str) -> str:
    return (
        subject
        if len(subject) <= SUBJECT_CHARACTERS
        else subject[: SUBJECT_CHARACTERS - 1].rstrip() + "…"
    )


def _with_name(address: str, name: str) -> str:
    if not name:
        return address
    quoted = header_text(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}" <{address}>'


def _end_line(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _expected_headers(request: Request) -> Counter[str]:
    expected = Counter(["from", "subject", "message-id", "mime-version", "content-type"])
    present = {
        "to": request.to,
        "cc": request.cc,
        "in-reply-to": request.in_reply_to,
        "references": request.references,
        "importance": request.importance != "normal",
        "x-priority": request.importance != "normal",
        "content-transfer-encoding": request.content.html is None and not request.attachments,
    }
    expected.update(name for name, there in present.items() if there)
    return expected


def _header_names(parsed: EmailMessage) -> Counter[str]:
    return Counter(name.lower() for name in parsed.keys())  # noqa: SIM118  # a message has one key for each header


def _find_odd_headers(parsed: EmailMessage) -> Iterator[str]:
    """Yield the headers of parts that we do not write, or write once."""
    for part in list(parsed.walk())[1:]:
        for name, count in _header_names(part).items():
            if name not in PART_HEADERS or count > 1:
                yield name


def _names(*mailboxes: Address) -> dict[str, str]:
    """Return the names of recipients, by address in lower case."""
    return {each.addr_spec.lower(): each.display_name for each in mailboxes if each.display_name}


def _expected_names(request: Request) -> dict[str, str]:
    listed = {address.lower() for address in (*request.to, *request.cc)}
    return {address: name for address, name in request.names.items() if address in listed}


def _leaves(parsed: EmailMessage) -> Iterator[EmailMessage]:
    return (part for part in parsed.walk() if not part.is_multipart())


def _part(parsed: EmailMessage, subtype: str) -> str | None:
    for part in _leaves(parsed):
        if part.get_content_type() == f"text/{subtype}" and part.get_content_disposition() is None:
            return str(part.get_content()).replace("\r\n", "\n").strip("\n")
    return None
