"""Browsers in which people are signed in: one row for each session, with the hash of its key."""

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.core.internal.httpkit import HTTP_USER_AGENT_MAX_LENGTH
from allauth.usersessions.models import UserSession
from django.db import transaction
from django.http import HttpRequest

from accounts.models import User
from accounts.people.sessions import stored_key


def remember_browser(request: HttpRequest, person: User) -> None:
    """Store the session of this request, and replace an existing row for it."""
    if not request.session.session_key:
        request.session.save()
    UserSession.objects.update_or_create(
        session_key=stored_key(request.session.session_key or ""),
        defaults={
            "user": person,
            "ip": get_adapter().get_client_ip(request),
            "user_agent": request.META.get("HTTP_USER_AGENT", "")[:HTTP_USER_AGENT_MAX_LENGTH],
        },
    )


def browsers_of(person: User) -> list[UserSession]:
    """Return the active sessions, the newest first, and delete the rows of ended ones."""
    found: list[UserSession] = UserSession.objects.purge_and_list(person)
    return sorted(found, key=lambda each: each.created_at, reverse=True)


def is_this(session: UserSession, request: HttpRequest) -> bool:
    """Return True if the row belongs to the session of this request."""
    return bool(session.session_key == stored_key(request.session.session_key or ""))


@transaction.atomic
def end_sessions(person: User, *, but: HttpRequest | None = None) -> int:
    """End all sessions of a person, except that of the request `but`; return their number."""
    found = list(UserSession.objects.filter(user=person))
    ended = [each for each in found if but is None or not is_this(each, but)]
    for each in ended:
        each.end()
    return len(ended)


def on_signed_in(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    """Receive the library's signals for a sign-in, and for a change of the session's key."""
    browsers_of(user)
    remember_browser(request, user)
