"""Step-up: a change to security settings needs a sign-in within the last five minutes.

`mailhub.middleware.step_up` lists the pages that need it. A view that needs it only for some requests calls
`is_fresh` and returns `ask_again`. A sign-in counts only if its method is older than the session. A
password, passkey or code that was set up in this session proves nothing about the person who
started the session.
"""

import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from allauth.account.signals import (
    authentication_step_completed,
    password_changed,
    password_reset,
    password_set,
)
from allauth.mfa.models import Authenticator
from django.contrib import messages
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

FRESH_SECONDS = 300
SINCE = "signed_in_at"
BEGAN = "session_began_at"
NEW_PASSWORD = "password_is_of_this_session"  # noqa: S105  # the name of a mark
AFTERWARDS = "after_step_up"
SENT_FORM = "step_up_of_a_form"


def is_fresh(request: HttpRequest) -> bool:
    """Return True if the person has signed in within the last five minutes, in this session."""
    return (
        request.user.is_authenticated
        and time.time() - request.session.get(SINCE, 0) < FRESH_SECONDS
    )


def ask_again(request: HttpRequest, *, back: str) -> HttpResponse:
    """Redirect to the page that asks for a sign-in, and then to `back`, a path of ours.

    What a form has sent is not kept, so the page then says that it must be sent again.
    """
    request.session[AFTERWARDS] = back
    request.session[SENT_FORM] = request.method == "POST"
    return HttpResponseRedirect(f"{reverse('sign_in_again')}?{urlencode({'next': back})}")


def password_counts(request: HttpRequest) -> bool:
    """Return False if the password was set in this session."""
    return not request.session.get(NEW_PASSWORD)


def factors_that_count(request: HttpRequest) -> set[str]:
    """Return the types of this person's factors that have a factor older than the session."""
    began = request.session.get(BEGAN) or request.session.get(SINCE, 0)
    older = Authenticator.objects.filter(
        user=request.user.pk, created_at__lte=datetime.fromtimestamp(began, tz=UTC)
    )
    return set(older.values_list("type", flat=True))


def confirm_by_passkey(request: HttpRequest, credential: str) -> bool:
    """Return True if the answer of this person's passkey, as JSON, makes their sign-in fresh.

    It must answer the challenge that this session was given last, and each challenge counts once.
    """
    # Imported here because workers load this module, and the passkeys bring 3 MB of tables.
    from allauth.mfa.webauthn.forms import ReauthenticateWebAuthnForm
    from allauth.mfa.webauthn.internal import flows

    form = ReauthenticateWebAuthnForm({"credential": credential}, user=request.user)
    try:
        if not credential or not form.is_valid():
            return False
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):  # a malformed answer
        return False
    flows.reauthenticate(request, form.cleaned_data["credential"])
    return is_fresh(request)


@receiver(user_logged_in)
def _record_sign_in(sender: Any, request: HttpRequest, **_: Any) -> None:
    request.session[SINCE] = request.session[BEGAN] = time.time()
    request.session.pop(NEW_PASSWORD, None)
    _ask_for_the_form(request)


def _ask_for_the_form(request: HttpRequest) -> None:
    if request.session.pop(SENT_FORM, False):
        messages.info(request, _("It is you. Nothing was done yet: do it once more now."))


@receiver([password_set, password_changed, password_reset])
def _record_password_set(sender: Any, request: HttpRequest, **_: Any) -> None:
    request.session[NEW_PASSWORD] = True


@receiver(authentication_step_completed)
def _record_reauthentication(sender: Any, request: HttpRequest, **extra: Any) -> None:
    if extra.get("reauthenticated") and _counts(request, extra):
        request.session[SINCE] = time.time()
        _ask_for_the_form(request)


def _counts(request: HttpRequest, step: dict[str, Any]) -> bool:
    if step.get("method") == "password":
        return password_counts(request)
    used = Authenticator.objects.filter(user=request.user.pk, pk=step.get("id")).first()
    began = request.session.get(BEGAN) or request.session.get(SINCE, 0)
    return used is not None and used.created_at.timestamp() <= began
