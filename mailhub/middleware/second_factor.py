"""The pages that change security need a second factor; an approval asks for it itself.

They are the pages that need a fresh sign-in, and those of the admin.
"""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import ResolverMatch, reverse
from django.utils.decorators import sync_and_async_middleware
from django.utils.http import url_has_allowed_host_and_scheme

from accounts.access.signed_in import (
    AuthenticatedRequest,
    ask_for_factor,
    land_at,
    signed_in_page,
)
from accounts.people.second_factor import lacks_factor, needs_factor_later
from mailhub.middleware.step_up import STEP_UP_NAMESPACES, find_ask

# Without these pages nobody could set up a factor, or end a session of somebody else.
OPEN = ("mfa_", "account_", "end_")


def waits(match: ResolverMatch, method: str) -> bool:
    """Return True if this request needs a second factor."""
    if match.view_name.startswith(OPEN):
        return False
    if STEP_UP_NAMESPACES.keys() & set(match.namespaces):
        return match.view_name not in ("admin:logout", "admin:login")
    return find_ask(match, method) is not None


def _judge(request: HttpRequest) -> HttpResponseBase | None:
    match = request.resolver_match
    assert match is not None  # Django sets it before it calls process_view
    if waits(match, request.method or "") and lacks_factor(request.user):
        return ask_for_factor(request)
    return None


@sync_and_async_middleware
def ask_for_second_factor(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Redirect a person without a required second factor to the page that sets one up."""
    if iscoroutinefunction(answer):

        async def respond_async(request: HttpRequest) -> Any:
            return await answer(request)

        async def process_view_async(
            request: HttpRequest, view: Any, args: Any, kwargs: Any
        ) -> Any:
            return await sync_to_async(_judge)(request)

        respond_async.process_view = process_view_async  # type: ignore[attr-defined]
        return respond_async

    def respond(request: HttpRequest) -> Any:
        return answer(request)

    def process_view(request: HttpRequest, view: Any, args: Any, kwargs: Any) -> Any:
        return _judge(request)

    respond.process_view = process_view  # type: ignore[attr-defined]
    return respond


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
