"""The address of a link, as it is written behind the link's text. Pure."""

import re
from urllib.parse import unquote

LONGEST = 400  # characters of an address; links that count clicks have many hundreds
SHOWN = re.compile(r"(?:https?|ftp|sip|sips|xmpp|webcal|msteams|zoommtg|tel|sms|mailto):", re.I)
# Possessive, because a shorter label is followed by no dot either: it takes a quarter of the time.
HOST = re.compile(r"(?:www\.)?[\w-]{1,63}+(?:\.[\w-]{1,63}+){1,8}(?:[/?#:]|$)", re.I)
STRAY = re.compile(r"[\x00-\x20\x7f\u200b\ufeff]+")
SCHEME = re.compile(r"^(?:https?://|mailto:|tel:|sms:)?(?:www\.)?", re.I)


def address_of(target: str) -> str:
    """Return the address that a link leads to; empty if it leads nowhere outside the mail."""
    address = STRAY.sub("", target)
    if SHOWN.match(address):
        if address[:7].lower() == "mailto:":
            return unquote(address[7:].partition("?")[0]) or address
        return address
    if address.startswith("//"):
        return f"https:{address}"
    return address if HOST.match(address) else ""


def shorten(address: str) -> str:
    """Return the address with at most LONGEST characters, and a sign that it was cut."""
    return address if len(address) <= LONGEST else f"{address[: LONGEST - 1]}…"


def is_named(address: str, text: str) -> bool:
    """Return True if the text of a link already contains its whole address."""
    plain = _plain(address)
    return bool(plain) and any(
        plain == _plain(word.strip("<>()[].,;")) for word in (text, *text.split())
    )


def _plain(address: str) -> str:
    plain = SCHEME.sub("", unquote(address).strip()).casefold().rstrip("/")
    digits = re.sub(r"[\s()/.-]", "", plain)
    return digits if digits.lstrip("+").isdigit() else plain
