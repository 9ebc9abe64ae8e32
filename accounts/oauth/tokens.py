"""The codes and tokens of connected programs: rows of the library, each used by one conditional
UPDATE.

A used code or refresh token stays until it would have expired: somebody who sends it again has a
copy, so all tokens of that sign-in end (RFC 9700, 4.14).
"""

import secrets
import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import structlog
from allauth.idp.oidc.models import Client, Token
from django.db import transaction
from django.utils import timezone

from accounts.access.auth import ACCESS_PREFIX
from accounts.models import ApiToken, User, digest_of
from accounts.oauth.grants import find_live

log = structlog.get_logger(__name__)

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
    """Return an unused code or refresh token of a program.

    A used one ends all tokens of its sign-in.
    """
    found = Token.objects.filter(
        type__in=(kind, USED[kind]),
        hash=digest_of(secret),
        client=client,
        expires_at__gt=timezone.now(),
    ).select_related("user")
    token = found.filter(type=kind).first()
    if token is None:
        for copied in found.filter(type=USED[kind]):
            end_family(copied)
    return token


def use(token: Token) -> bool:
    """Mark a code or refresh token as used; return False if another request was first, which ends
    all tokens of the sign-in.
    """
    used = Token.objects.filter(pk=token.pk, type=token.type).update(type=USED[token.type])
    if used != 1:
        end_family(token)
    return used == 1


@transaction.atomic
def end_family(token: Token) -> None:
    """Delete all tokens of one sign-in of a program.

    The lock on the grant makes a simultaneous `issue` come before, so its tokens are deleted, or
    after, so it finds its code gone.
    """
    assert token.user is not None
    assert token.client is not None
    find_live(token.user, token.client).select_for_update(no_key=True).first()
    family = facts_of(token)["family"]
    ended, _ = Token.objects.filter(
        user=token.user, client=token.client, data__family=family
    ).delete()
    log.warning("oauth_tokens_ended", grant_of=str(token.user_id), ended=ended)


def facts_of(token: Token) -> dict[str, Any]:
    """Return what is kept beside a code or token: its family, its resources, and more for a code."""
    return dict(token.data or {})


def new_family() -> str:
    return uuid.uuid4().hex


class GrantGone(Exception):
    """The person has revoked the grant, or it has expired."""


@transaction.atomic
def issue(
    *,
    client: Client,
    person: User,
    scopes: Collection[str],
    resources: list[str],
    family: str,
    used: int | None,
    access: str,
    refresh: str | None,
) -> int:
    """Store an access token and a refresh token, and return the seconds that the first is valid.

    `used` is the row of the code or refresh token that they are given for. Raises GrantGone, also
    if that row was sent twice. The lock on the grant makes a simultaneous revocation wait, which
    then deletes these tokens too.
    """
    now = timezone.now()
    grant = find_live(person, client).select_for_update(no_key=True).first()
    if grant is None or grant.is_expired or not person.is_active:
        raise GrantGone
    if used is not None and not Token.objects.filter(pk=used).exists():
        raise GrantGone
    data = {"family": family, "resources": resources}
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
