"""The page with a person's ways to sign in, and the browsers in which they are signed in."""

from ipaddress import ip_address

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from accounts.access.signed_in import (
    AuthenticatedRequest,
    signed_in_action,
    signed_in_page,
    take_landing,
)
from accounts.audit_hook import record_event
from accounts.forms import LanguageForm
from accounts.people.browsers import browsers_of, end_sessions, is_this
from accounts.people.browsers import end_session as end_browser


@signed_in_page
def index(request: AuthenticatedRequest) -> HttpResponse:
    person = request.user
    factors = Authenticator.objects.filter(user=person)
    context = {
        "passkeys": [each for each in factors if each.type == Authenticator.Type.WEBAUTHN],
        "codes": [each for each in factors if each.type == Authenticator.Type.TOTP],
        "recovery": [each for each in factors if each.type == Authenticator.Type.RECOVERY_CODES],
        "sessions": [
            {"row": each, "is_this": is_this(each, request)} for each in browsers_of(person)
        ],
        "language": LanguageForm(initial={"language": person.language}),
        "sign_on": settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"],
        "no_passkeys_here": is_address(request.get_host()),
        "can_return": settings.SENDS_MAIL
        or bool(factors)
        or bool(settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]),
    }
    return render(request, "accounts/security.html", context)


@signed_in_page
def continue_after(request: AuthenticatedRequest) -> HttpResponse:
    """Redirect a person who has changed their factors to where they came from."""
    return HttpResponseRedirect(take_landing(request))


@signed_in_action
def end_session(request: AuthenticatedRequest, session_id: int) -> HttpResponse:
    """Sign out one browser; its next request must sign in again."""
    session = get_object_or_404(UserSession, user=request.user, pk=session_id)
    with transaction.atomic():
        end_browser(session)
        record_event("session_ended", person=request.user, count=1)
    messages.success(request, _("That browser is signed out."))
    return redirect("security")


@signed_in_action
def end_other_sessions(request: AuthenticatedRequest) -> HttpResponse:
    person = request.user
    with transaction.atomic():
        record_event("session_ended", person=person, count=end_sessions(person, but=request))
    messages.success(request, _("All other browsers are signed out."))
    return redirect("security")


def is_address(host: str) -> bool:
    """Return True for an IP address, because browsers make no passkeys for one."""
    try:
        ip_address(
            host.rpartition(":")[0].strip("[]") if host.count(":") == 1 else host.strip("[]")
        )
    except ValueError:
        return False
    return True
