"""Browsers in which people are signed in: one row for each session, with the hash of its key."""

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.core.internal.httpkit import HTTP_USER_AGENT_MAX_LENGTH
from allauth.usersessions.models import UserSession
from django.db import transaction
from django.dispatch import Signal
from django.http import HttpRequest

from accounts.models import User
from accounts.people.devices import read_id
from accounts.people.sessions import stored_key

# The receiver gets `person` and `device`: the id of the browser that was signed out or, with
# `others`, of the only browser of the person that was not. It is empty for an unknown browser.
# After a restore, `person` is None: all browsers of everybody were signed out.
browser_ended = Signal()


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
            "data": {"device": read_id(request)},
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
def end_session(session: UserSession) -> None:
    """Sign out one browser."""
    session.end()
    device = session.data.get("device", "")
    browser_ended.send(sender=None, person=session.user, device=device, others=False)


@transaction.atomic
def end_sessions(person: User, *, but: HttpRequest | None = None) -> int:
    """End all sessions of a person, except that of the request `but`; return their number."""
    found = list(UserSession.objects.filter(user=person))
    ended = [each for each in found if but is None or not is_this(each, but)]
    for each in ended:
        each.end()
    device = read_id(but) if but else ""
    browser_ended.send(sender=None, person=person, device=device, others=True)
    return len(ended)


def on_signed_in(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    """Receive the library's signals for a sign-in, and for a change of the session's key."""
    browsers_of(user)
    remember_browser(request, user)


def on_password_changed(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    """Receive the library's signals for a new password: it ends all other sessions."""
    on_signed_in(sender, request, user)
    browser_ended.send(sender=None, person=user, device=read_id(request), others=True)


def on_password_reset(sender: Any, user: User, **_: Any) -> None:
    """Receive the library's signal for a password that replaced a lost one."""
    browser_ended.send(sender=None, person=user, device="", others=True)


def on_signed_out(sender: Any, request: HttpRequest, user: User | None, **_: Any) -> None:
    """Receive Django's signal for a sign-out."""
    if user is not None and (device := read_id(request)):
        browser_ended.send(sender=None, person=user, device=device, others=False)
