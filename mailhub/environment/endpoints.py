"""Addresses of the servers that mailhub itself uses: the allowed ones, and Django's settings."""

from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote

from accounts.infra.foreign_text import parse_url

MAIL_PORTS = {"smtp": 25, "submission": 587, "smtps": 465}
MAIL_SECONDS = 10  # a person waits for the page meanwhile


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_loopback_server(text: str) -> str:
    """Return ADDRESS:PORT in its usual spelling; raise ValueError if it is not on this machine."""
    host, _, port = text.rpartition(":")
    try:
        address = ip_address(host.strip("[]"))
        if address.is_loopback:
            return f"{address}:{int(port)}"
    except ValueError:
        pass
    raise ValueError("must be 127.0.0.1:PORT, or sandbox")


def check_base_url(url: str) -> str:
    """Return the URL without a slash at its end; raise ValueError if secrets would be sent to it in
    the clear.

    The host is parsed, because `http://127.0.0.1.evil.example` only begins like loopback.
    """
    address = parse_url(url)
    host, port_is_valid = address.hostname or "", _has_valid_port(url)
    if not host or not port_is_valid or address.username is not None:
        raise ValueError("must be an address such as https://host")
    if address.scheme != "https" and not (address.scheme == "http" and is_loopback(host)):
        raise ValueError(
            "must start with https:// (http:// is only for this machine: localhost, 127.0.0.1 or [::1])"
        )
    return url.rstrip("/")


def _has_valid_port(url: str) -> bool:
    try:
        return parse_url(url).port != 0
    except ValueError:
        return False


def check_mail_server(url: str) -> str:
    """Raise ValueError if this is no mail server, or its password would be sent in the clear."""
    if not url:
        return ""
    address = parse_url(url)
    good = (
        address.scheme in MAIL_PORTS
        and address.hostname
        and _has_valid_port(url)
        and address.path in ("", "/")
    )
    if not good:
        raise ValueError(
            f"must be {', '.join(f'{scheme}://host' for scheme in MAIL_PORTS)}, with a port or without"
        )
    if address.password and address.scheme == "smtp" and not is_loopback(address.hostname or ""):
        raise ValueError("would send its password in the clear: use submission:// or smtps://")
    return url


def mail_settings(url: str) -> dict[str, Any]:
    """Return Django's settings for mailhub's own mail; without a server mailhub sends none."""
    address = parse_url(url)
    backend = (
        "accounts.people.mail_server.OwnMailBackend"
        if url
        else "django.core.mail.backends.dummy.EmailBackend"
    )
    return {
        "EMAIL_BACKEND": backend,
        "EMAIL_HOST": address.hostname or "",
        "EMAIL_PORT": address.port or MAIL_PORTS.get(address.scheme, 0),
        "EMAIL_HOST_USER": unquote(address.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(address.password or ""),
        "EMAIL_USE_TLS": address.scheme == "submission",
        "EMAIL_USE_SSL": address.scheme == "smtps",
        "EMAIL_TIMEOUT": MAIL_SECONDS,
    }
