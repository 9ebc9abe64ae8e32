"""Redirect addresses of programs: which may be registered, which match, and how a person reads them."""

import re
from urllib.parse import SplitResult

from django.core.exceptions import ValidationError

from accounts.infra.foreign_text import parse_url

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# These run or show content in the browser itself, instead of opening a program.
_UNSAFE_SCHEMES = frozenset(
    "about blob chrome content data file filesystem ftp intent javascript mailto tel vbscript "
    "view-source ws wss".split()
)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_PLAIN = re.compile(r"[!-~]+")  # printable ASCII; a browser reads other letters in its own way
_NAME = re.compile(r"[a-z0-9.-]+")
_HOST = re.compile(rf"{_NAME.pattern}|[0-9a-f:.]+")  # a name, or an address of IPv4 or IPv6
MAX_LENGTH = 500
MAX_COUNT = 10


def check_redirect(uri: str) -> None:
    """Raise ValidationError unless a program may be sent back to this address.

    It is https, http on the person's own computer, or the scheme of an installed app (RFC 8252).
    """
    if len(uri) > MAX_LENGTH or not _PLAIN.fullmatch(uri) or "*" in uri:
        raise ValidationError("A redirect URI has characters that are not allowed, or is too long.")
    parts = _split(uri)
    if parts is None or "#" in uri or parts.username is not None:
        raise ValidationError("A redirect URI must be absolute, without a fragment and a user.")
    if parts.scheme in ("http", "https"):
        if not _HOST.fullmatch(parts.hostname or "") or (
            parts.scheme == "http" and not is_loopback(uri)
        ):
            raise ValidationError("A redirect URI must use https, or http on localhost.")
    elif not _SCHEME.fullmatch(parts.scheme) or parts.scheme in _UNSAFE_SCHEMES:
        raise ValidationError("A redirect URI has a scheme that is not allowed.")


def check_redirects(uris: list[str]) -> None:
    """Raise ValidationError unless a program may register these addresses together."""
    if not 0 < len(uris) <= MAX_COUNT:
        raise ValidationError(f"Register 1 to {MAX_COUNT} redirect URIs.")
    for uri in uris:
        check_redirect(uri)


def matches(uri: str, registered: list[str]) -> bool:
    """Return True if an address is registered, letter by letter.

    Only the port may differ on the person's own computer, because a program takes a free one there
    (RFC 8252, 7.3).
    """
    if uri in registered:
        return True
    parts = _split(uri)
    if parts is None:
        return False
    return any(
        is_loopback(each) and _without_port(parts) == _without_port(parse_url(each))
        for each in registered
    )


def is_loopback(uri: str) -> bool:
    """Return True if a redirect leads to a program on the person's own computer."""
    parts = _split(uri)
    return parts is not None and parts.scheme == "http" and parts.hostname in LOOPBACK


def host_of(uri: str) -> str:
    """Return the host of an address as the settings name it: `localhost` for the person's own
    computer, the scheme for an installed app.
    """
    parts = _split(uri)
    if parts is None:
        return ""
    if is_loopback(uri):
        return "localhost"
    return (parts.hostname or "") if parts.scheme == "https" else f"{parts.scheme}:"


def form_action_of(uri: str) -> str:
    """Return the source with which a Content Security Policy lets a form lead to this address."""
    parts = _split(uri)
    if parts is None:
        return ""
    # The grammar of a policy has no IPv6 addresses: https://www.w3.org/TR/CSP3/#grammardef-host-part
    if parts.scheme not in ("http", "https") or not _NAME.fullmatch(parts.hostname or ""):
        return f"{parts.scheme}:"
    return f"{parts.scheme}://{parts.netloc}"


def _split(uri: str) -> SplitResult | None:
    try:
        parts = parse_url(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.scheme else None


def _without_port(parts: SplitResult) -> tuple[str | None, ...]:
    return parts.scheme, parts.hostname, parts.path, parts.query, parts.fragment, parts.username
