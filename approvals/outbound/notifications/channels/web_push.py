"""Notifications in a browser or an installed app (Web Push, RFC 8030, 8291 and 8292).

The payload is encrypted for the one browser, holds no text of a mail beyond its subject, and opens
a page of mailhub. The service worker shows it and decides nothing.
"""

import json
import re
from typing import TYPE_CHECKING, Any

from django.conf import settings

from accounts.infra.foreign_text import load_json, origin_of, parse_url
from accounts.infra.safe_hosts import HostError
from approvals.models import Content, NotificationChannel
from approvals.outbound.notifications.channels.port import DeliveryAnswer, NotificationMessage
from approvals.outbound.webhooks.subscriptions import PORTS, SECONDS

if TYPE_CHECKING:
    from accounts.infra.pinned_requests import PinnedSession

import base64
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from accounts.infra.credentials import configured_keys

LINES, LINE = 4, 120
LENGTH = 2000
ENDPOINT = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?/[!-~]*")  # VAPID knows no other hosts
GONE, TRY_LATER = (404, 410), (408, 425, 429)
PURPOSE = b"mailhub web push vapid"


class WebPush:
    """The transport of push messages.

    A message is named by a tag. Another message with its tag replaces it, on the way and on the
    screen, so repeating one cannot show it twice.
    """

    most = Content.SUBJECT
    withdraws = True

    def send(self, channel: NotificationChannel, message: NotificationMessage) -> DeliveryAnswer:
        tag = message.id.hex
        payload = {
            "tag": tag,
            "title": message.title[:LINE],
            "body": "\n".join(_lines(message)),
            "url": _path_of(message.url),
            "lang": message.language,
            "badge": message.waiting,
        }
        return _push(channel, tag, payload, urgent=message.urgent)

    def withdraw(
        self, channel: NotificationChannel, receipt: str, *, waiting: int
    ) -> DeliveryAnswer:
        """Close the notification that `receipt` names, or replace it while it is on its way."""
        return _push(channel, receipt, {"close": receipt, "badge": waiting}, urgent=False)


def _lines(message: NotificationMessage) -> list[str]:
    lines = [
        ": ".join(part for part in (item.sender, item.subject) if part) or item.why
        for item in message.items
    ]
    shown = [*lines, *message.summary][:LINES]
    return ["".join(mark if mark.isprintable() else " " for mark in line)[:LINE] for line in shown]


def _path_of(url: str) -> str:
    parts = parse_url(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _push(
    channel: NotificationChannel, tag: str, payload: dict[str, Any], *, urgent: bool
) -> DeliveryAnswer:
    """Encrypt a payload, sign it, and hand it to the push service of a subscription."""
    # pywebpush brings aiohttp: only if somebody uses it.
    from pywebpush import WebPushException, webpush
    from requests import RequestException

    from accounts.infra.pinned_requests import PinnedSession

    address = read_subscription(channel.address)
    private = private_key_of(address["key"]) if address else None
    if address is None or private is None:
        return DeliveryAnswer(result="gone", code="subscribe_again")
    session = PinnedSession(seconds=SECONDS, ports=PORTS)
    origin = origin_of(address["endpoint"])
    try:
        webpush(
            {
                "endpoint": address["endpoint"],
                "keys": {"p256dh": address["p256dh"], "auth": address["auth"]},
            },
            json.dumps(payload, ensure_ascii=False),
            vapid_private_key=private,
            vapid_claims={"sub": _contact(), "aud": origin},
            headers={"Topic": tag, "Urgency": "high" if urgent else "normal"},
            ttl=settings.MAILHUB_ACTION_TTL_HOURS * 3600,
            requests_session=session,
        )
    except (WebPushException, RequestException, ValueError):
        return _failed(session)
    return DeliveryAnswer(result="taken", detail=_said(session), receipt=tag)


def read_subscription(text: str) -> dict[str, str] | None:
    """Return the members of a stored subscription; None if it cannot be read."""
    try:
        found = load_json(text)
    except ValueError:
        return None
    names = ("endpoint", "p256dh", "auth", "key")
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in names):
        return None
    if len(text) > LENGTH or not ENDPOINT.fullmatch(found["endpoint"]):
        return None
    return {name: found[name] for name in names}


def _contact() -> str:
    """Return how a push service reaches the people who run this server."""
    public = settings.MAILHUB_PUBLIC_URL
    if public.startswith("https://"):
        return f"https://{parse_url(public).hostname}"
    return f"mailto:{settings.DEFAULT_FROM_EMAIL}"


def _failed(session: "PinnedSession") -> DeliveryAnswer:
    """Return why a push was not taken.

    A push without an answer may be sent again, because its tag replaces the first one.
    """
    if session.answer is None:
        away = isinstance(session.failure, HostError)
        code = "unreachable" if away else "no_answer" if session.failure else "subscribe_again"
        return DeliveryAnswer(result="not_sent" if session.failure else "gone", code=code)
    status = session.answer.status
    code, detail = f"http_{status}", _said(session)
    if status in GONE:
        return DeliveryAnswer(result="gone", code=code, detail=detail)
    later = status in TRY_LATER or status >= 500
    return DeliveryAnswer(result="not_sent" if later else "refused", code=code, detail=detail)


def _said(session: "PinnedSession") -> str:
    answer = session.answer
    text = (
        "".join(mark if mark.isprintable() else " " for mark in answer.text[:300]) if answer else ""
    )
    return f"{answer.status} {text}".strip() if answer else ""


_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256


def public_key() -> str:
    """Return the key that a browser subscribes with, in base64url."""
    return _pair(configured_keys()[0])[0]


def private_key_of(public: str) -> str | None:
    """Return the private key that belongs to a public one; None if its key is not configured."""
    for key in configured_keys():
        ours, private = _pair(key)
        if ours == public:
            return private
    return None


@lru_cache(maxsize=8)
def _pair(key: bytes) -> tuple[str, str]:
    """Return the public and the private key of one configured key, in base64url.

    64 bits more than the order needs make every scalar equally likely (FIPS 186-5, A.2.1).
    """
    derived = HKDF(algorithm=SHA256(), length=40, salt=None, info=PURPOSE).derive(key)
    scalar = int.from_bytes(derived) % (_ORDER - 1) + 1
    point = derive_private_key(scalar, SECP256R1()).public_key()
    return (
        base64url(point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)),
        base64url(scalar.to_bytes(32)),
    )


def base64url(raw: bytes) -> str:
    """Return base64url without padding, as push services and browsers write it."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
