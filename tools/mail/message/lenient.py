"""Reading headers and texts as they really come. Pure; no message makes it raise."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import policy
from email.header import Header, decode_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import parsedate_to_datetime
from html import unescape

from accounts.infra.own_header import OWN_HEADER
from tools.mail.html.tags import TAG
from tools.mail.message.head import mend_head
from tools.mail.text.address_list import parse_addresses
from tools.mail.text.charsets import codec_of, is_ascii
from tools.mail.text.decoding import read_as, text_of, without_controls
from tools.mail.text.detection import has_shifts
from tools.mail.text.encoded_words import decode_words, protect_words

# RFC 5322 3.3: a time in UTC that says nothing about the sender's zone.
UTC_FROM_ANYWHERE = re.compile(r" -0000\b")
REFERENCE = re.compile(r"<[^<>\s]+>")
# Servers that give a message a new Message-ID keep the original here: Outlook.com and others.
ORIGINAL_ID_HEADERS = ("X-Microsoft-Original-Message-ID", "X-Original-Message-ID")
REPORTERS = ("mailer-daemon@", "microsoftexchange329e71ec88ae4615bbc36ab6ce41109e@")
FOLD = re.compile(r"\n(?=[ \t])")
LINE_ENDS = re.compile(r"[\t\n\u2028\u2029]+")


# Limits for the cost of one header. The library takes 4 microseconds for each character of a list
# of addresses.
BLOCK_BYTES = 256 * 1024
TEXT_CHARACTERS = 10_000
LIST_CHARACTERS = 64_000
ROW_CHARACTERS = 4_000  # for the addresses in one row of a list; a page has many rows
DATE_CHARACTERS = 200
A_DAY = timedelta(days=1)
MOST_DETECTED = 20  # values of one mail; each takes milliseconds
PARAMETER_CHARACTERS = 2_000  # the library takes quadratic time for the parameters of a header
CUT = "[…]"
# It replaces an address but is not one: an answer to all of them is refused, so that nobody is left
# out silently.
MORE_ADDRESSES = "[more addresses]"


def headers(block: bytes, charset: str = "", left: Iterator[int] | None = None) -> Message:
    """Return the headers at the beginning, parsed leniently; values are raw, for the functions
    below.

    Letters outside ASCII that are not encoded are UTF-8, else in the charset, usually the body's,
    else in one that is detected while numbers are `left`.
    """
    found = Message()
    left = iter(range(MOST_DETECTED)) if left is None else left
    parsed = BytesHeaderParser(policy=policy.compat32).parsebytes(mend_head(block[:BLOCK_BYTES]))
    for name, value in parsed.raw_items():
        found[name] = decode_raw(str(value).encode("utf-8", "surrogateescape"), left, charset)
    return found


def decode_raw(value: bytes, left: Iterator[int], charset: str = "") -> str:
    """Return the text of a raw header or parameter; the charset is detected while numbers are
    left.
    """
    if value.isascii() and b"\0" not in value and not has_shifts(value):
        return without_controls(value.decode("ascii"))
    codec = None if is_ascii(charset) else codec_of(charset)
    if read_as(value, "utf_8") is not None:
        charset = ""
    elif (codec is None or read_as(value, codec) is None) and next(left, None) is None:
        charset = "windows-1252"
    return text_of(value, charset)


def decode_text(value: object) -> str:
    """Return a header's readable text on one line: encoded words decoded, control characters
    replaced.
    """
    text = raw_text(value)
    if len(text) > TEXT_CHARACTERS:
        text = text[:TEXT_CHARACTERS] + CUT
    return LINE_ENDS.sub(" ", decode_words(FOLD.sub("", text))).strip()


def addresses(
    block: Message, header: str, *, most: int = LIST_CHARACTERS
) -> tuple[tuple[str, str], ...]:
    """Return (name, address) of each entry; for display, never for deciding where mail goes.

    The header is read up to `most` characters. If there are more, an entry says so.
    """
    values = ", ".join(raw_text(value) for value in block.get_all(header, []))
    kept = values if len(values) <= most else values[:most].rpartition(",")[0]
    # A word in place of an address is shown as its text; it is no address for an answer.
    found = [
        (decode_text(name), address if "@" in address else decode_text(address))
        for name, address in parse_addresses(protect_words(kept))
    ]
    return (*found, ("", MORE_ADDRESSES)) if len(kept) < len(values) else tuple(found)


def sender(block: Message) -> tuple[str, str]:
    """Return (name, address) of the first entry of From; both are empty if there is no entry."""
    return next(iter(addresses(block, "From", most=ROW_CHARACTERS)), ("", ""))


def own_mark(block: Message) -> str:
    """Return the mark of mailhub's own mail, unverified."""
    return decode_text(block[OWN_HEADER])


def parameter(block: Message, name: str) -> str:
    """Return a parameter of Content-Type, or an empty string if it is missing or the header is too
    long.
    """
    if len(raw_text(block["Content-Type"])) > PARAMETER_CHARACTERS:
        return ""
    found = block.get_param(name, "")
    return found[2] if isinstance(found, tuple) else str(found or "")


def references(block: Message) -> tuple[str, ...]:
    """Return the ids of the conversation, oldest first: References, then In-Reply-To."""
    texts = (raw_text(block[name])[-LIST_CHARACTERS:] for name in ("References", "In-Reply-To"))
    return tuple(dict.fromkeys(id_ for text in texts for id_ in REFERENCE.findall(text)))


def is_automatic(block: Message, media_type: str, from_address: str) -> bool:
    """Return True for an automatic answer (RFC 3834) or a report about a delivery (RFC 3462)."""
    submitted = decode_text(block["Auto-Submitted"]).partition(";")[0].strip().lower()
    return (
        submitted not in ("", "no")
        or decode_text(block["Precedence"]).lower() == "auto_reply"
        or is_report(block, media_type, from_address)
    )


def is_report(block: Message, media_type: str, from_address: str) -> bool:
    """Return True for a report about a delivery (RFC 3462).

    Exchange sends its reports without headers, under an address of its own.
    """
    return (
        "X-Failed-Recipients" in block
        or media_type == "multipart/report"
        or from_address.lower().startswith(REPORTERS)
    )


def date_of(block: Message, arrived: datetime | None) -> datetime | None:
    """Return the date of the Date header, or the time of arrival if it is unusable."""
    try:
        written = raw_text(block["Date"])[:DATE_CHARACTERS]
        claimed = _parse_date(written)
        if UTC_FROM_ANYWHERE.search(written):
            claimed = claimed.replace(tzinfo=UTC)
        # Near the limits of the calendar this raises OverflowError: some readers have no such time.
        _ = claimed.astimezone(UTC) - A_DAY, claimed.astimezone(UTC) + A_DAY
    except (TypeError, ValueError, IndexError, OverflowError):
        return arrived
    return claimed if claimed.tzinfo else arrived


def _parse_date(written: str) -> datetime:
    try:
        return parsedate_to_datetime(written)
    except (TypeError, ValueError, IndexError):
        return datetime.fromisoformat(written.strip())  # as web programs write it (RFC 3339)


def is_attachment(media_type: str, disposition: str, name: str) -> bool:
    """Return True if a part is an attachment: anything but plain text or HTML, or a named file."""
    if disposition == "attachment" or media_type not in ("text/plain", "text/html"):
        return True
    return disposition != "" and bool(name)  # RFC 2183 2.8: an unknown one is an attachment


def first_words(text: str, *, html: bool) -> str:
    """Return the first words of a text, which may be the beginning of a longer one."""
    words = unescape(TAG.sub(" ", text) if html else text)
    return " ".join(without_controls(words).split())[:200]


def raw_text(value: object) -> str:
    """Return a header's text with its line ends, and with encoded words as they are written."""
    if isinstance(value, Header):  # compat32 returns one for raw 8-bit values
        value = b"".join(piece for piece, _ in decode_header(value))
    if isinstance(value, bytes):
        return text_of(value, "")
    return "" if value is None else without_controls(str(value))
