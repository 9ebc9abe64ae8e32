"""The one way into a view for a signed-in person: three decorators, and the request they hand over.

Django checks the CSRF token of each POST before a view runs. `mailhub.middleware.step_up` asks for a fresh
sign-in before the views that it lists.
"""

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar, cast
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import User

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase | Awaitable[HttpResponseBase])


LANDING = "after_sign_in_is_set_up"


class AuthenticatedRequest(HttpRequest):
    """A request of a signed-in person. Only the type checker sees this class."""

    user: User
    auser: Callable[[], Awaitable[User]]


View: TypeAlias = Callable[Concatenate[HttpRequest, P], R]
SignedInView: TypeAlias = Callable[Concatenate[AuthenticatedRequest, P], R]


def signed_in_page(view: "SignedInView[P, R]") -> "View[P, R]":
    """Let a signed-in person read a page by GET or HEAD."""
    return cast("View[P, R]", login_required(never_cache(require_safe(view))))


def signed_in_form(view: "SignedInView[P, R]") -> "View[P, R]":
    """Let a signed-in person read a page with a form, and post the form to the same address."""
    methods = require_http_methods(["GET", "HEAD", "POST"])
    return cast("View[P, R]", login_required(never_cache(methods(view))))


def signed_in_action(view: "SignedInView[P, R]") -> "View[P, R]":
    """Let a signed-in person change something, by POST only."""
    return cast("View[P, R]", login_required(require_POST(view)))


def ask_for_factor(request: HttpRequest) -> HttpResponse:
    """Redirect to the page that sets one up, and then back to where the person was."""
    back = (
        request.get_full_path()
        if request.method in ("GET", "HEAD")
        else request.headers.get("Referer", "")
    )
    return redirect(f"{reverse('second_factor')}?{urlencode({'next': back})}")


def land_at(request: HttpRequest, path: str) -> None:
    """Keep a path of ours, to which a person returns after adding a way to sign in or a factor."""
    request.session[LANDING] = path


def take_landing(request: HttpRequest) -> str:
    """Return the kept path, once; then the page with the ways to sign in."""
    return str(request.session.pop(LANDING, "") or reverse("security"))
