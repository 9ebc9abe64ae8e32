"""The pages that change security need a second factor; an approval asks for it itself.

They are the pages that need a fresh sign-in, and those of the admin.
"""

from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import ResolverMatch, reverse
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import url_has_allowed_host_and_scheme

from accounts.access.signed_in import (
    AuthenticatedRequest,
    ask_for_factor,
    land_at,
    signed_in_page,
)
from accounts.models import User
from accounts.people.recovery import hold_account
from accounts.people.second_factor import lacks_factor, needs_factor_later
from mailhub.middleware.step_up import MADE_WHILE_HELD, STEP_UP_NAMESPACES, find_ask, judge

# Without these pages nobody could set up a factor, or end a session of somebody else.
OPEN = ("mfa_", "account_", "end_")


def waits(match: ResolverMatch, method: str) -> bool:
    """Return True if this request needs a second factor."""
    if match.view_name.startswith(OPEN):
        return False
    if STEP_UP_NAMESPACES.keys() & set(match.namespaces):
        return match.view_name not in ("admin:logout", "admin:login")
    return find_ask(match, method) is not None


class AskFirst(MiddlewareMixin):
    """Before these pages, ask for the second factor that is missing, then for a fresh sign-in."""

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        match, method = request.resolver_match, request.method or ""
        assert match is not None  # Django sets it before it calls process_view
        if waits(match, method) and lacks_factor(request.user):
            return ask_for_factor(request)
        ask = find_ask(match, method)
        answer = judge(request, ask) if ask else None
        if answer is None and method == "POST" and match.view_name in MADE_WHILE_HELD:
            return _answer_while_held(request, view, args, kwargs)
        return answer


def _answer_while_held(
    request: HttpRequest, view: Any, args: Any, kwargs: Any
) -> HttpResponseBase | None:
    """Call the view while the account cannot be recovered or closed; a stranger is the view's matter."""
    if not isinstance(request.user, User):
        return None
    with transaction.atomic():
        hold_account(request.user)
        answer: HttpResponseBase = view(request, *args, **kwargs)
        return answer


@signed_in_page
def second_factor(request: AuthenticatedRequest) -> HttpResponse:
    """Return the page that explains second factors and offers the ways to set one up."""
    back = request.GET.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}):
        back = reverse("queue")
    needs = lacks_factor(request.user) or needs_factor_later(request.user)
    if needs:
        land_at(request, request.get_full_path())  # it says then that the factor is set up
    return render(request, "accounts/second_factor.html", {"back": back, "done": not needs})
