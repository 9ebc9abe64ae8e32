"""Device codes (RFC 8628): a program without a browser shows a code, and a person types it here."""

import secrets
from datetime import timedelta
from typing import Any

from allauth.idp.oidc.models import Client, Token
from django.db.models import QuerySet
from django.utils import timezone
from oauthlib.oauth2.rfc8628.grant_types import DeviceCodeGrant

from accounts.access.quotas import Quota, take
from accounts.infra.texts import translatable
from accounts.models import ApiToken, User, digest_of
from accounts.oauth.tokens import facts_of

LIFETIME = timedelta(minutes=10)
INTERVAL = 5  # seconds between two polls
# The types of a row: waits for a person, was allowed, was refused.
WAITS, ALLOWED, REFUSED = "dw", "da", "dr"
# No vowels, so no words; no letters that look like digits (RFC 8628, 6.1).
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
GUESSES = Quota(
    name="device-codes",
    amount=10,
    seconds=600,
    refusal=translatable("You have entered too many codes. Wait a little, then try again."),
)


def begin(client: Client, *, scopes: list[str], resources: list[str]) -> dict[str, Any]:
    """Store a new device code, and return it with the code for the person."""
    device_code = secrets.token_urlsafe(32)
    user_code = "".join(secrets.choice(LETTERS) for _ in range(8))
    token = Token(
        type=WAITS,
        hash=digest_of(device_code),
        client=client,
        expires_at=timezone.now() + LIFETIME,
        data={
            "user_code": digest_of(user_code),
            "resources": resources,
            "polled_at": 0.0,
        },
    )
    token.set_scopes(scopes)
    token.save()
    return {
        "device_code": device_code,
        "user_code": f"{user_code[:4]}-{user_code[4:]}",
        "expires_in": int(LIFETIME.total_seconds()),
        "interval": INTERVAL,
    }


def find(person: User, typed: str) -> Token | None:
    """Return the waiting request with the code that a person typed; raises Problem `rate_limited`.

    Each look is counted, because the code is short.
    """
    take(GUESSES, f"user:{person.pk}")
    code = "".join(letter for letter in typed.upper() if letter in LETTERS)
    return _live().filter(type=WAITS, data__user_code=digest_of(code)).first()


def answer(token: Token, person: User, grant: ApiToken | None) -> bool:
    """Store the answer of a person, None for a refusal; return False if there is one already."""
    token.set_scopes(grant.scopes if grant else [])
    changed = {"user": person, "scopes": token.scopes, "type": ALLOWED if grant else REFUSED}
    family = {"family": grant.pk.hex} if grant else {}
    changed["data"] = facts_of(token) | family
    return _live().filter(pk=token.pk, type=WAITS).update(**changed) == 1


def poll(device_code: str, client: Client) -> tuple[str | None, Token | None]:
    """Return the status of a device code, in the words of the library.

    A code that was allowed is returned once, with its row.
    """
    found = Token.objects.filter(
        type__in=(WAITS, ALLOWED, REFUSED), hash=digest_of(device_code), client=client
    )
    token = found.select_related("user").first()
    if token is None:
        return None, None
    now = timezone.now()
    if token.expires_at is None or token.expires_at <= now:
        return DeviceCodeGrant.DEVICE_CODE_EXPIRED, None
    if token.type == REFUSED:
        return DeviceCodeGrant.DEVICE_CODE_DENIED, None
    if token.type == ALLOWED:
        taken, _ = Token.objects.filter(pk=token.pk, type=ALLOWED).delete()
        return (DeviceCodeGrant.DEVICE_CODE_AUTHORIZED, token) if taken else (None, None)
    facts = facts_of(token)
    too_soon = now.timestamp() - facts["polled_at"] < INTERVAL
    facts["polled_at"] = now.timestamp()
    Token.objects.filter(pk=token.pk, type=WAITS).update(data=facts)
    if too_soon:
        return DeviceCodeGrant.DEVICE_CODE_SLOW_DOWN, None
    return DeviceCodeGrant.DEVICE_CODE_PENDING, None


def _live() -> QuerySet[Token]:
    return Token.objects.filter(expires_at__gt=timezone.now()).select_related("client")
