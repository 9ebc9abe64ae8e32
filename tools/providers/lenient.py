"""Reading headers and texts as they really come. Pure; nothing in a message makes it raise."""

import binascii
import re
from contextlib import suppress
from datetime import UTC, datetime
from email import policy
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import getaddresses, parsedate_to_datetime
from html import unescape

from accounts.people import own_mail
from tools.mail.html.tags import TAG
from tools.mail.text.charsets import codec_of

REFERENCE = re.compile(r"<[^<>\s]+>")
# Where servers that give a message a Message-ID of their own keep the one it came with: Outlook.com
# and others.
ORIGINAL_ID_HEADERS = ("X-Microsoft-Original-Message-ID", "X-Original-Message-ID")
# more bytes than may be left of one: three, of which quoted-printable may leave the last as "=8"
CUT_CHARACTER = 6
CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


# Bounds for what one header may cost. The library takes 4 microseconds for each character of a list
# of addresses.
BLOCK_BYTES = 256 * 1024
TEXT_CHARACTERS = 10_000
LIST_CHARACTERS = 64_000
ROW_CHARACTERS = 4_000  # of the addresses in a row of a list, of which a page has many
DATE_CHARACTERS = 200
PARAMETER_CHARACTERS = 2_000  # the library takes quadratic time for the parameters of a header
CUT = "[…]"
# They stand in place of an address, and are none: an answer to all of them is refused, nobody is
# left out in silence.
MORE_ADDRESSES = "[more addresses]"
UNREADABLE = "[unreadable addresses]"


def headers(block: bytes) -> Message:
    """The headers at the beginning, parsed leniently; values are raw and go through the functions
    below.
    """
    return BytesHeaderParser(policy=policy.compat32).parsebytes(block[:BLOCK_BYTES])


def decoded(value: object) -> str:
    """A header's text for reading: encoded words decoded, control and line characters gone."""
    text = _raw(value)
    if len(text) > TEXT_CHARACTERS:
        text = text[:TEXT_CHARACTERS] + CUT
    with suppress(
        HeaderParseError, LookupError, UnicodeError, ValueError, binascii.Error
    ):  # what cannot be decoded is shown as it stands
        words = decode_header(text)
        text = str(make_header([(word, _codec(charset)) for word, charset in words]))
    return CONTROL.sub(" ", text).strip()


def _codec(charset: str | None) -> str | None:
    """Raises LookupError for a label that mail is not read in."""
    if charset is None or charset == "unknown-8bit":  # the library's own name for raw 8-bit letters
        return charset
    codec = codec_of(charset)
    if codec is None:
        raise LookupError(charset)
    return codec


def addresses(
    block: Message, header: str, *, most: int = LIST_CHARACTERS
) -> tuple[tuple[str, str], ...]:
    """(name, address) of each entry; for showing, never for deciding where mail goes.

    The header is read up to `most` characters. If there are more, or if it cannot be read, an entry
    says so.
    """
    values = ", ".join(_raw(value) for value in block.get_all(header, []))
    kept = values if len(values) <= most else values[:most].rpartition(",")[0]
    try:
        found = [
            (decoded(name), CONTROL.sub("", address))
            for name, address in getaddresses([kept])
            if address
        ]
    except RecursionError:  # the library calls itself for each parenthesis that is open
        return (("", UNREADABLE),)
    return (*found, ("", MORE_ADDRESSES)) if len(kept) < len(values) else tuple(found)


def sender(block: Message) -> tuple[str, str]:
    """(name, address) of the first entry of From; both are empty if there is none."""
    return next(iter(addresses(block, "From", most=ROW_CHARACTERS)), ("", ""))


def own_mark(block: Message) -> str:
    """Return the mark of mailhub's own mail, unverified."""
    return decoded(block[own_mail.HEADER])


def parameter(block: Message, name: str) -> str:
    """Return a parameter of Content-Type, or nothing if there is none or the header is too long to
    be parsed.
    """
    if len(_raw(block["Content-Type"])) > PARAMETER_CHARACTERS:
        return ""
    found = block.get_param(name, "")
    return found[2] if isinstance(found, tuple) else str(found or "")


def references(block: Message) -> tuple[str, ...]:
    """The ids of the conversation, oldest first; In-Reply-To stands in where there are no
    References.
    """
    texts = (_raw(block[name])[-LIST_CHARACTERS:] for name in ("References", "In-Reply-To"))
    given: list[str] = next(filter(None, map(REFERENCE.findall, texts)), [])
    return tuple(dict.fromkeys(given))


def date_of(block: Message, arrived: datetime | None) -> datetime | None:
    """What the Date header says, else when it arrived."""
    try:
        claimed = parsedate_to_datetime(_raw(block["Date"])[:DATE_CHARACTERS])
        claimed.astimezone(UTC)  # at the edge of the calendar a date cannot be told in another zone
    except (TypeError, ValueError, IndexError, OverflowError):
        return arrived
    return claimed if claimed.tzinfo else arrived


def is_attachment(media_type: str, disposition: str, name: str) -> bool:
    """Whether a part is something beside the text: everything but plain text and HTML that is not a
    named file.
    """
    if disposition == "attachment" or media_type not in ("text/plain", "text/html"):
        return True
    return disposition == "inline" and bool(name)


def text_of(content: bytes, charset: str, *, whole: bool = True) -> str:
    """The text of decoded content; a wrong character set costs characters, never the message.

    Of what is not `whole` the last character may be cut, which costs that one alone.
    """
    for name in (codec_of(charset) or "utf_8", "utf_8", "cp1252"):
        text = read_as(content, name, whole=whole)
        if text is not None:
            return text
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


def read_as(content: bytes, charset: str, *, whole: bool) -> str | None:
    """The text in this character set, one of `tools.mail.text.charsets`, or None when it is in
    another.
    """
    for left_out in range(1 if whole else CUT_CHARACTER):
        # Some of Python's codecs raise a bare UnicodeError, and a name with NUL in it is a
        # ValueError.
        with suppress(LookupError, ValueError):
            return content[: len(content) - left_out].decode(charset).replace("\r\n", "\n")
    return None


def first_words(text: str, *, html: bool) -> str:
    """The first words of a text, which may be the beginning of a longer one."""
    return " ".join(unescape(TAG.sub(" ", text) if html else text).split())[:200]


def _raw(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    # compat32 hands out Header objects for raw 8-bit values
    return (
        ""
        if value is None
        else str(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    )
