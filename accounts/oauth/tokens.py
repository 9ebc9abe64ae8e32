"""The codes and tokens of connected programs: rows of the library, each used by one conditional
UPDATE.

A used code or refresh token stays until it would have expired: somebody who sends it again has a
copy, so that sign-in ends (RFC 9700, 4.14).
"""

import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from allauth.idp.oidc.models import Client, Token
from django.db import transaction
from django.utils import timezone

from accounts.access.auth import ACCESS_PREFIX
from accounts.models import ApiToken, User, digest_of
from accounts.oauth.grants import end_sign_in, find_live

CODE = Token.Type.AUTHORIZATION_CODE.value
ACCESS = Token.Type.ACCESS_TOKEN.value
REFRESH = Token.Type.REFRESH_TOKEN.value
USED = {CODE: "xc", REFRESH: "xr"}
REFRESH_PREFIX = "mhr_"
CODE_LIFETIME = timedelta(seconds=60)
ACCESS_LIFETIME = timedelta(hours=1)
# A program that is not used for so long must ask again.
REFRESH_LIFETIME = timedelta(days=60)


def new_access_token(request: object = None) -> str:
    return ACCESS_PREFIX + secrets.token_urlsafe(32)


def new_refresh_token(request: object = None) -> str:
    return REFRESH_PREFIX + secrets.token_urlsafe(32)


def keep(
    kind: str,
    secret: str,
    *,
    client: Client,
    person: User,
    scopes: Collection[str],
    until: datetime,
    data: dict[str, Any],
) -> Token:
    """Store a secret by its digest."""
    token = Token(
        type=kind,
        hash=digest_of(secret),
        client=client,
        user=person,
        expires_at=until,
        data=data,
    )
    token.set_scopes(sorted(scopes))
    token.save()
    return token


def find(kind: str, secret: str, client: Client) -> Token | None:
    """Return an unused code or refresh token of a program; a used one ends its sign-in."""
    found = Token.objects.filter(
        type__in=(kind, USED[kind]),
        hash=digest_of(secret),
        client=client,
        expires_at__gt=timezone.now(),
    ).select_related("user")
    token = found.filter(type=kind).first()
    if token is None:
        for copied in found.filter(type=USED[kind]):
            end_sign_in(copied)
    return token


def use(token: Token) -> bool:
    """Mark a code or refresh token as used; return False if another request was first, which ends
    the sign-in.
    """
    used = Token.objects.filter(pk=token.pk, type=token.type).update(type=USED[token.type])
    if used != 1:
        end_sign_in(token)
    return used == 1


def scopes_of(token: Token) -> list[str]:
    """Return the scopes of a code or refresh token that its sign-in still has."""
    grant = find_live(token).first()
    return [scope for scope in token.get_scopes() if grant and scope in grant.scopes]


def facts_of(token: Token) -> dict[str, Any]:
    """Return what is kept beside a code or token: its family, which is the id of its grant, its
    resources, and more for a code.
    """
    return dict(token.data or {})


class GrantGone(Exception):
    """The person has revoked the grant, or it has expired."""


@transaction.atomic
def issue(
    *,
    client: Client,
    given_for: Token,
    scopes: Collection[str],
    resources: list[str],
    access: str,
    refresh: str | None,
) -> int:
    """Store an access token and a refresh token, and return the seconds that the first is valid.

    `given_for` is the code or refresh token. Raises GrantGone, also if that was sent twice. The lock
    on the grant makes a simultaneous revocation wait, which then deletes these tokens too.
    """
    now = timezone.now()
    grant = find_live(given_for).select_for_update(no_key=True).first()
    if grant is None or grant.is_expired or not grant.user.is_active:
        raise GrantGone
    person, data = grant.user, {"family": grant.pk.hex, "resources": resources}
    until = _earlier(now + ACCESS_LIFETIME, grant)
    keep(ACCESS, access, client=client, person=person, scopes=scopes, until=until, data=data)
    if refresh is not None:
        keep(
            REFRESH,
            refresh,
            client=client,
            person=person,
            scopes=scopes,
            until=_earlier(now + REFRESH_LIFETIME, grant),
            data=data,
        )
    return int((until - now).total_seconds())


def _earlier(moment: datetime, grant: ApiToken) -> datetime:
    return moment if grant.expires_at is None else min(moment, grant.expires_at)
