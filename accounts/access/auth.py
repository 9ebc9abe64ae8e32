"""Authentication: which Caller a request comes from, by its token or its session."""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import cast
from uuid import UUID

from allauth.account.authentication import get_authentication_records
from allauth.idp.oidc.models import Token
from django.contrib.sessions.models import Session
from django.db.models import F, Q, QuerySet, UUIDField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Now
from django.http import HttpRequest
from django.utils import timezone

from accounts.access import audience, rate_limits
from accounts.access.caller import Caller, Surface
from accounts.access.signed_in import AuthenticatedRequest
from accounts.models import ApiToken, User, allowed_scopes, digest_of

ACCESS_PREFIX = "mho_"  # of the access tokens that `accounts.oauth` gives out
LAST_USED_EVERY = timedelta(minutes=1)
FRESH_SECONDS = 1.0  # an ordinary call is answered within them and looks its caller up once
# The key for the caller of a request, once it is known: in the ASGI scope, and in `request.META`. A
# client cannot set it: its headers arrive there with the prefix HTTP_. The caller may have been
# found long before the end of the body.
ADMITTED = "mailhub.caller"


def caller_of_token(secret: str, *, surface: Surface) -> Caller:
    """Return the caller behind a bearer token, and count the request.

    The token is a person's `mh_` token, or an access token of a program that a person connected.

    Raises Problem `unauthenticated`, with the same text for every reason, and `rate_limited`.
    """
    now = timezone.now()
    if secret.startswith(ACCESS_PREFIX):
        token, scopes = _find_connected(secret, surface)
    else:
        token, scopes = _good_tokens().filter(digest=digest_of(secret)).first(), None
    if token is None:
        raise audience.unauthenticated(surface, has_token=bool(secret))
    # Once a minute is exact enough for a person, and saves a write on each call.
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    granted = allowed_scopes(token.user, token.scopes)
    caller = Caller(
        user=token.user,
        surface=surface,
        token=token,
        scopes=granted if scopes is None else granted & scopes,
    )
    rate_limits.count_request(caller)
    return caller


def _find_connected(secret: str, surface: Surface) -> tuple[ApiToken | None, frozenset[str] | None]:
    """Return the token of a connected program and the scopes of its access token; no token if the
    access token is for another surface.
    """
    found = (
        _good_tokens()
        .filter(
            client__token__type=Token.Type.ACCESS_TOKEN,
            client__token__hash=digest_of(secret),
            client__token__expires_at__gt=Now(),
            client__token__user=F("user"),
            id=Cast(KeyTextTransform("family", "client__token__data"), UUIDField()),
        )
        .annotate(granted=F("client__token__scopes"), access=F("client__token__data"))
        .first()
    )
    if found is None or not audience.is_for(found.access["resources"], surface):
        return None, None
    return found, frozenset(found.granted.split("\n"))


def find_caller(user_id: int, token_id: UUID | None) -> Caller | None:
    """Return the program to which something was handed out earlier, with its rights of now; None if
    it has ended. Without a token it is the chat of the person.
    """
    if token_id is None:
        person = User.objects.filter(pk=user_id, is_active=True).first()
        return Caller.chat_of(person) if person else None
    token = _good_tokens().filter(pk=token_id, user=user_id).first()
    if token is None:
        return None
    scopes = allowed_scopes(token.user, token.scopes)
    return Caller(user=token.user, surface="rest", token=token, scopes=scopes)


def find_again(caller: Caller, *, seconds: float = FRESH_SECONDS) -> Caller:
    """Return a program with the rights that it still has, if it was found this long ago or longer;
    raise Problem `unauthenticated` if it has ended. The chat ends when the account of its person is
    recovered or closed, or the browser that asked is signed out: a thief may have asked.

    The same request continues, so it is not counted again.
    """
    is_program = caller.token is not None or caller.surface == "agent"
    if not is_program or time.monotonic() - caller.found_at < seconds:
        return caller
    found = find_caller(caller.user.pk, caller.token.pk if caller.token else None)
    if found is None or (caller.token is None and _has_chat_ended(caller, found.user)):
        raise audience.unauthenticated(caller.surface, has_token=True)
    return replace(
        caller,
        user=found.user,
        token=found.token,
        scopes=caller.scopes & found.scopes,
        found_at=found.found_at,
    )


def _has_chat_ended(caller: Caller, person: User) -> bool:
    open_ones = Session.objects.filter(session_key=caller.session, expire_date__gt=Now())
    signed_out = bool(caller.session) and not open_ones.exists()
    # A new password ends sessions too, whose rows stay.
    known = (caller.user.generation, caller.user.password)
    return signed_out or (person.generation, person.password) != known


def _good_tokens() -> QuerySet[ApiToken]:
    return ApiToken.objects.select_related("user").filter(
        Q(expires_at=None) | Q(expires_at__gt=Now()), revoked_at=None, user__is_active=True
    )


def caller_of_bearer(request: HttpRequest, *, surface: Surface = "rest") -> Caller:
    """Return the caller by `Authorization: Bearer …` or `X-API-Key`; cookies are ignored."""
    known = caller_on(request)
    secret = secret_of(request.headers)
    caller = find_again(known) if known else caller_of_token(secret, surface=surface)
    request.META[ADMITTED] = caller
    return caller


def caller_on(request: HttpRequest) -> Caller | None:
    """Return the caller that the server or the view has already found, or None."""
    found = request.META.get(ADMITTED) or getattr(request, "scope", {}).get(ADMITTED)
    return cast("Caller | None", found)


def secret_of(headers: Mapping[str, str]) -> str:
    """Return the token in the headers, or an empty text."""
    scheme, _, value = headers.get("Authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else headers.get("X-API-Key", "")


def caller_of_session(request: AuthenticatedRequest) -> Caller:
    """Return the signed-in person as a caller."""
    return Caller(user=request.user, surface="web")


def sign_in_method(request: AuthenticatedRequest) -> str:
    """Return how the person signed in, such as `password+mfa`; `session` without a record."""
    records = get_authentication_records(request, request.user)
    methods = {str(record.get("method", "")) for record in records}
    return "+".join(sorted(methods - {""}))[:60] or "session"
