"""Reading headers and texts as they really come. Pure; no message makes it raise."""

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
# Servers that give a message a new Message-ID keep the original here: Outlook.com and others.
ORIGINAL_ID_HEADERS = ("X-Microsoft-Original-Message-ID", "X-Original-Message-ID")
# more bytes than a cut character can leave: three, and quoted-printable may leave the last as "=8"
CUT_CHARACTER = 6
CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


# Limits for the cost of one header. The library takes 4 microseconds for each character of a list
# of addresses.
BLOCK_BYTES = 256 * 1024
TEXT_CHARACTERS = 10_000
LIST_CHARACTERS = 64_000
ROW_CHARACTERS = 4_000  # for the addresses in one row of a list; a page has many rows
DATE_CHARACTERS = 200
PARAMETER_CHARACTERS = 2_000  # the library takes quadratic time for the parameters of a header
CUT = "[…]"
# They replace an address but are not one: an answer to all of them is refused, so that nobody is
# left out silently.
MORE_ADDRESSES = "[more addresses]"
UNREADABLE = "[unreadable addresses]"


def headers(block: bytes) -> Message:
    """Return the headers at the beginning, parsed leniently; values are raw, for the functions
    below.
    """
    return BytesHeaderParser(policy=policy.compat32).parsebytes(block[:BLOCK_BYTES])


def decoded(value: object) -> str:
    """Return a header's readable text: encoded words decoded, control and line characters
    removed.
    """
    text = _raw(value)
    if len(text) > TEXT_CHARACTERS:
        text = text[:TEXT_CHARACTERS] + CUT
    # Undecodable text is shown unchanged.
    with suppress(HeaderParseError, LookupError, UnicodeError, ValueError, binascii.Error):
        words = decode_header(text)
        text = str(make_header([(word, _codec(charset)) for word, charset in words]))
    return CONTROL.sub(" ", text).strip()


def _codec(charset: str | None) -> str | None:
    """Return the codec of a charset label; raise LookupError for a label that mail is not
    read in.
    """
    if charset is None or charset == "unknown-8bit":  # the library's own name for raw 8-bit letters
        return charset
    codec = codec_of(charset)
    if codec is None:
        raise LookupError(charset)
    return codec


def addresses(
    block: Message, header: str, *, most: int = LIST_CHARACTERS
) -> tuple[tuple[str, str], ...]:
    """Return (name, address) of each entry; for display, never for deciding where mail goes.

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
    """Return (name, address) of the first entry of From; both are empty if there is no entry."""
    return next(iter(addresses(block, "From", most=ROW_CHARACTERS)), ("", ""))


def own_mark(block: Message) -> str:
    """Return the mark of mailhub's own mail, unverified."""
    return decoded(block[own_mail.HEADER])


def parameter(block: Message, name: str) -> str:
    """Return a parameter of Content-Type, or an empty string if it is missing or the header is too
    long.
    """
    if len(_raw(block["Content-Type"])) > PARAMETER_CHARACTERS:
        return ""
    found = block.get_param(name, "")
    return found[2] if isinstance(found, tuple) else str(found or "")


def references(block: Message) -> tuple[str, ...]:
    """Return the ids of the conversation, oldest first; In-Reply-To is used if there are no
    References.
    """
    texts = (_raw(block[name])[-LIST_CHARACTERS:] for name in ("References", "In-Reply-To"))
    given: list[str] = next(filter(None, map(REFERENCE.findall, texts)), [])
    return tuple(dict.fromkeys(given))


def date_of(block: Message, arrived: datetime | None) -> datetime | None:
    """Return the date of the Date header, or the time of arrival if it is unusable."""
    try:
        claimed = parsedate_to_datetime(_raw(block["Date"])[:DATE_CHARACTERS])
        claimed.astimezone(UTC)  # near the limits of the calendar this raises OverflowError
    except (TypeError, ValueError, IndexError, OverflowError):
        return arrived
    return claimed if claimed.tzinfo else arrived


def is_attachment(media_type: str, disposition: str, name: str) -> bool:
    """Return True if a part is an attachment: anything but plain text or HTML, or a named file."""
    if disposition == "attachment" or media_type not in ("text/plain", "text/html"):
        return True
    return disposition == "inline" and bool(name)


def text_of(content: bytes, charset: str, *, whole: bool = True) -> str:
    """Return the text of decoded content; a wrong charset loses characters, never the message.

    If the content is not `whole`, its last character may be cut, and only that one is lost.
    """
    for name in (codec_of(charset) or "utf_8", "utf_8", "cp1252"):
        text = read_as(content, name, whole=whole)
        if text is not None:
            return text
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


def read_as(content: bytes, charset: str, *, whole: bool) -> str | None:
    """Return the text in this charset, one of `tools.mail.text.charsets`, or None if it is in
    another.
    """
    for left_out in range(1 if whole else CUT_CHARACTER):
        # Some of Python's codecs raise a bare UnicodeError; a name that contains NUL raises
        # ValueError.
        with suppress(LookupError, ValueError):
            return content[: len(content) - left_out].decode(charset).replace("\r\n", "\n")
    return None


def first_words(text: str, *, html: bool) -> str:
    """Return the first words of a text, which may be the beginning of a longer one."""
    return " ".join(unescape(TAG.sub(" ", text) if html else text).split())[:200]


def _raw(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    # compat32 returns Header objects for raw 8-bit values
    return (
        ""
        if value is None
        else str(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    )
