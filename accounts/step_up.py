"""Step-up: what is risky asks for a sign-in of the last five minutes.

Put `@fresh_sign_in` on a view that shows or takes a form, or ask `is_fresh` and return `ask_again` inside one.
"""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from allauth.account.signals import authentication_step_completed
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

FRESH_SECONDS = 300
SINCE = "signed_in_at"
AFTERWARDS = "after_step_up"


def is_fresh(request: HttpRequest) -> bool:
    """Whether the person has shown who they are within the last five minutes, in this session."""
    return request.user.is_authenticated and time.time() - request.session.get(SINCE, 0) < FRESH_SECONDS


def ask_again(request: HttpRequest, *, back: str) -> HttpResponse:
    """To the page that asks who this is, and from there to `back`, a path of ours."""
    request.session[AFTERWARDS] = back
    return HttpResponseRedirect(f"{reverse('sign_in_again')}?{urlencode({'next': back})}")


def fresh_sign_in(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Ask again before the view; a form that is sent too late leads back to its own page."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not is_fresh(request):
            return ask_again(request, back=request.path)
        return view(request, *args, **kwargs)

    return guarded


@receiver(user_logged_in)
def _signed_in(sender: Any, request: HttpRequest, **_: Any) -> None:
    request.session[SINCE] = time.time()


@receiver(authentication_step_completed)
def _shown_again(sender: Any, request: HttpRequest, **extra: Any) -> None:
    if extra.get("reauthenticated"):
        request.session[SINCE] = time.time()
