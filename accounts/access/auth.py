"""Authentication: which Caller a request comes from, by its token or its session."""

from collections.abc import Mapping
from datetime import timedelta
from typing import cast

from allauth.account.authentication import get_authentication_records
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils import timezone

from accounts.access import rate_limits
from accounts.access.caller import Caller, Surface
from accounts.access.signed_in import AuthenticatedRequest
from accounts.infra.compiled_sql import Select, columns_of, instance, slot
from accounts.infra.problems import Problem
from accounts.models import ApiToken, User, digest_of

LAST_USED_EVERY = timedelta(minutes=1)
# The key for the caller of a request, once it is known: in the WSGI environ, in the ASGI scope, and
# in `request.META`. A client cannot set it: its headers arrive there with the prefix HTTP_.
ADMITTED = "mailhub.caller"


def caller_of_token(secret: str, *, surface: Surface) -> Caller:
    """Return the caller behind a bearer token, and count the request.

    Raises Problem `unauthenticated`, with the same text for every reason, and `rate_limited`.
    """
    now = timezone.now()
    found = _good_token.first(digest=digest_of(secret))
    if found is None:
        raise Problem("unauthenticated", "The token is missing, unknown, expired or revoked.")
    token = instance(ApiToken, found)
    token.user = instance(User, found[len(columns_of(ApiToken)) :])
    # Once a minute is exact enough for a person, and saves a write on each call.
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    caller = Caller(user=token.user, surface=surface, token=token, scopes=frozenset(token.scopes))
    rate_limits.count_request(caller)
    return caller


_good_token = Select(
    lambda: ApiToken.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=Now()),
        digest=slot(ApiToken, "digest"),
        revoked_at=None,
        user__is_active=True,
    ).values_list(*columns_of(ApiToken), *columns_of(User, "user__"))
)


def caller_of_bearer(request: HttpRequest, *, surface: Surface = "rest") -> Caller:
    """Return the caller by `Authorization: Bearer …` or `X-API-Key`; cookies are ignored."""
    caller = caller_on(request)
    if caller is None:
        caller = caller_of_token(secret_of(request.headers), surface=surface)
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
    """Return how the person signed in to this session, such as `password+mfa`; `session` if nothing
    was recorded.
    """
    records = get_authentication_records(request, request.user)
    methods = {str(record.get("method", "")) for record in records}
    return "+".join(sorted(methods - {""}))[:60] or "session"
