"""The address of a webhook's messages, and the context of its secret."""

from django.conf import settings

from accounts.infra.foreign_text import parse_url
from accounts.infra.safe_hosts import Endpoint, check_addresses
from accounts.infra.texts import translatable
from approvals.models import Webhook

SECONDS = 10.0
PORTS = frozenset({443, 8443})


def encryption_context(webhook: Webhook) -> str:
    """Return the context to which the encrypted secret is bound."""
    return f"approvals_webhook:secret:{webhook.pk}"


def address_of(url: str) -> tuple[Endpoint, str]:
    """Return the server and the path of a webhook's URL; raises ValueError with a sentence."""
    parts = parse_url(url)
    if (
        parts.scheme not in ("https", "http")
        or not parts.hostname
        or parts.username is not None
        or parts.fragment
    ):
        raise ValueError(
            translatable("Write an address as https://host/path, without a password and without #.")
        )
    if not (url.isascii() and url.isprintable() and " " not in url):
        raise ValueError(translatable("Write the address in ASCII, without spaces."))
    secure = parts.scheme == "https"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port or (443 if secure else 80)
    endpoint = Endpoint.parse(f"{host}:{port}:{'tls' if secure else 'plain'}")
    return endpoint, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def may_be_told(url: str) -> None:
    """Raise ValueError or HostRefused for an address to which nothing would ever be sent."""
    endpoint, _ = address_of(url)
    loopback = settings.MAILHUB_LOOPBACK_FOR_PEOPLE
    check_addresses(endpoint, timeout=SECONDS, loopback=loopback, ports=PORTS)
