"""The page with a person's ways to sign in, and the browsers in which they are signed in."""

from ipaddress import ip_address
from typing import cast

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from accounts.audit_hook import record_event
from accounts.models import User
from accounts.people.browsers import browsers_of, end_sessions, is_this


@login_required
@never_cache
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    person = cast(User, request.user)
    factors = Authenticator.objects.filter(user=person)
    context = {
        "passkeys": [each for each in factors if each.type == Authenticator.Type.WEBAUTHN],
        "codes": [each for each in factors if each.type == Authenticator.Type.TOTP],
        "recovery": [each for each in factors if each.type == Authenticator.Type.RECOVERY_CODES],
        "sessions": [
            {"row": each, "is_this": is_this(each, request)} for each in browsers_of(person)
        ],
        "sign_on": settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"],
        "no_passkeys_here": _is_address(request.get_host()),
    }
    return render(request, "accounts/security.html", context)


@login_required
@require_POST
def end_session(request: HttpRequest, session_id: int) -> HttpResponse:
    """Sign out one browser; its next request must sign in again."""
    session = UserSession.objects.filter(user=cast(User, request.user), pk=session_id).first()
    if session is None:
        raise Http404
    with transaction.atomic():
        session.end()
        record_event("session_ended", person=cast(User, request.user), count=1)
    messages.success(request, _("That browser is signed out."))
    return redirect("security")


@login_required
@require_POST
def end_other_sessions(request: HttpRequest) -> HttpResponse:
    person = cast(User, request.user)
    with transaction.atomic():
        record_event("session_ended", person=person, count=end_sessions(person, but=request))
    messages.success(request, _("All other browsers are signed out."))
    return redirect("security")


def _is_address(host: str) -> bool:
    """Return True for an IP address, because browsers make no passkeys for one."""
    try:
        ip_address(
            host.rpartition(":")[0].strip("[]") if host.count(":") == 1 else host.strip("[]")
        )
    except ValueError:
        return False
    return True
