"""Pages to sign in: password, passkey, single sign-on, or a one-time link with a button."""

from collections.abc import Callable
from functools import wraps
from typing import Any, cast
from urllib.parse import urlencode

import structlog
from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from allauth.account.views import LoginView
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal.auth import begin_authentication
from django.conf import settings
from django.contrib.auth import logout
from django.core.exceptions import ImproperlyConfigured
from django.db import DataError, IntegrityError
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    JsonResponse,
)
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.forms import SignInForm
from accounts.infra.foreign_text import origin_of
from accounts.models import SignInLink, User
from accounts.people.adapters import answer_without_sign_on
from accounts.people.step_up import AFTERWARDS, is_fresh

log = structlog.get_logger(__name__)
# The library fails with these over an answer of another form, and over two at once.
OF_ODD_ANSWERS = (
    *(ArithmeticError, AttributeError, DataError, ImproperlyConfigured, IntegrityError),
    *(LookupError, RecursionError, TypeError, ValueError),
)


class SignIn(LoginView):
    """The page for address and password, with buttons for passkey and single sign-on."""

    form_class = SignInForm
    template_name = "accounts/sign_in.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {"sends_mail": settings.SENDS_MAIL}

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = super().dispatch(request, *args, **kwargs)
        # Browsers apply the page's policy to the redirects of its forms. The attribute is set as
        # django-csp's decorator sets it, because the decorator takes values at import time, and
        # these come from settings.
        apps = cast(
            list[dict[str, Any]], settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
        )
        if sources := [origin_of(app["settings"]["server_url"]) for app in apps]:
            response._csp_update = {"form-action": sources}  # type: ignore[attr-defined]
        return response


def at_provider(name: str) -> Callable[..., HttpResponseBase]:
    """Return a view of the library for single sign-on.

    A link to it adds no parameter to the question to the provider, and an answer of another form is
    none.
    """
    from allauth.socialaccount.providers.openid_connect import views as library

    view = getattr(library, name.removeprefix("openid_connect_"))

    @wraps(view)
    def wrapper(request: HttpRequest, provider_id: str) -> HttpResponseBase:
        # The library reads the parameters from the request. Django lets it be set; its types do not.
        request.GET = query = request.GET.copy()  # type: ignore[assignment]
        for added in ("auth_params", "scope"):
            query.pop(added, None)
        try:
            return cast(HttpResponseBase, view(request, provider_id))
        except OF_ODD_ANSWERS:
            log.exception("sign_on_failed")
            return answer_without_sign_on(request)

    return wrapper


def by_mail(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Return the view, which answers 404 if mailhub sends no mail, because it needs an e-mail."""

    @wraps(view)
    def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not settings.SENDS_MAIL:
            raise Http404
        return view(request, *args, **kwargs)

    return wrapper


@never_cache
@sensitive_variables("secret")
@require_http_methods(["GET", "HEAD", "POST"])
def by_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Sign in by the form's POST only, because a mail scanner that follows links must not sign in.

    A person with a second factor is asked for it, as after a password.
    """
    if request.method == "POST":
        user = SignInLink.redeem(secret)
        if user is not None:
            back = request.session.get(AFTERWARDS) if request.user == user else None
            begins = (
                user.last_login is None and user.is_superuser and settings.MAILHUB_LOOPBACK_SERVERS
            )
            first = reverse("welcome" if begins else "queue")
            logout(request)
            return perform_login(request, Login(user=user, redirect_url=back or first))
    usable = SignInLink.find_usable(secret).exists()
    return render(
        request, "accounts/sign_in_link.html", {"usable": usable}, status=200 if usable else 410
    )


@signed_in_page
def sign_in_again(request: AuthenticatedRequest) -> HttpResponse:
    """Return the step-up page, with this person's ways to sign in again."""
    back = request.GET.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}):
        back = reverse("queue")
    if is_fresh(request):
        return HttpResponseRedirect(back)  # not the name of a view
    ways: list[dict[str, Any]] = get_adapter().get_reauthentication_methods(request.user)[1:]
    url = f"{reverse('sign_in')}?{urlencode({'next': back})}" if _can_return(request.user) else ""
    context = {"ways": ways, "back": back, "sign_in_url": url}
    return render(request, "accounts/sign_in_again.html", context)


@signed_in_page
def challenge_passkey(request: AuthenticatedRequest) -> HttpResponse:
    """Return a challenge for this person's passkeys, or 204 if their sign-in is fresh."""
    if is_fresh(request):
        return HttpResponse(status=204)
    return JsonResponse(begin_authentication(request.user))


def _can_return(person: User) -> bool:
    """Return True if a person who signs out can sign in again without an administrator."""
    return bool(
        settings.SENDS_MAIL
        or settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
        or person.has_usable_password()
        or Authenticator.objects.filter(user=person, type=Authenticator.Type.WEBAUTHN).exists()
    )
