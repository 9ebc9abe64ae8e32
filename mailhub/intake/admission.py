"""Admission of a request's body, by the headers.

A small body from an unknown sender needs no database query.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, HttpResponse
from django.http.cookie import parse_cookie

from accounts.access.auth import caller_of_token, secret_of
from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from accounts.people.sessions import SessionMiddleware
from mailhub.intake.rules import Asked, Rule, rule_for, too_large


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """The size limit of a body, its sender if known, and the caller if a token named one."""

    limit: int
    person_id: int | None = None
    caller: Caller | None = None


def needs_database(asked: Asked) -> bool:
    """Return True if `admit` queries the database for this request."""
    return _needs_caller(asked, rule_for(asked.path))


def admit(asked: Asked) -> Admitted:
    """Accept a body by its headers; raise Problem 400, 401, 403, 413 or 429 before it is read."""
    rule = rule_for(asked.path)
    if asked.length is not None and asked.length > rule.known:
        raise too_large(rule.known)
    caller = _caller(asked, rule) if _needs_caller(asked, rule) else None
    person_id = caller.user.pk if caller else None
    if caller is None and _needs_caller(asked, rule):
        person_id = _signed_in(asked.headers)
    known = person_id is not None
    if not known and rule.admits in ("token", "token or person"):
        raise Problem("unauthenticated", "Sign in, or send a token.")
    if asked.is_multipart and not rule.multipart:
        raise Problem(
            "invalid_input", "This address does not take multipart/form-data.", status=400
        )
    limit = rule.known if known or rule.admits == "itself" else rule.anonymous
    if asked.length is not None and asked.length > limit:
        raise too_large(limit)
    return Admitted(limit=limit, person_id=person_id, caller=caller)


def _needs_caller(asked: Asked, rule: Rule) -> bool:
    """Return False if the address admits its callers itself, or if the body is small enough for an
    unknown sender.
    """
    return rule.admits != "itself" and (asked.length is None or asked.length > rule.anonymous)


def _caller(asked: Asked, rule: Rule) -> Caller | None:
    """Return the caller by its token; None if a session may name it. Raise Problem 401 or 429."""
    if rule.admits == "person":
        return None
    has_token = any(asked.headers.get(name) for name in ("Authorization", "X-API-Key"))
    if rule.admits == "token or person" and not has_token:
        return None
    return caller_of_token(
        secret_of(asked.headers), surface="rest" if rule.admits == "token" else "agent"
    )


def _signed_in(headers: Mapping[str, str]) -> int | None:
    request = HttpRequest()
    request.COOKIES = parse_cookie(headers.get("Cookie", ""))
    if settings.SESSION_COOKIE_NAME not in request.COOKIES:
        return None
    SessionMiddleware(lambda _: HttpResponse()).process_request(request)
    return get_user(request).pk
