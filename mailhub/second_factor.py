"""The rule for second factors: which people must have one, and which pages require it.

Managers and staff can be required to have one (`MAILHUB_SECOND_FACTOR`): a passkey or one-time
codes. A person without one reads, rejects and pauses as before. Approvals and pages that change
security redirect to the page that sets one up.
"""

from collections.abc import Callable
from typing import Any

from allauth.mfa.models import Authenticator
from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import ResolverMatch, reverse
from django.utils.decorators import sync_and_async_middleware
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.models import Membership, Role, User
from mailhub.step_up import STEP_UP, STEP_UP_NAMESPACES

FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
# Without these pages nobody could set up a factor, or end a session of somebody else.
OPEN = ("mfa_", "account_", "end_")
APPROVES = frozenset({"approve", "bulk_approve"})
SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")


def lacks_factor(person: User | AnonymousUser) -> bool:
    """Return True if this person must have a second factor but has none."""
    if not isinstance(person, User) or settings.MAILHUB_SECOND_FACTOR == "optional":
        return False
    if not (person.is_staff or Membership.objects.filter(user=person, role=Role.MANAGER).exists()):
        return False
    if (
        settings.MAILHUB_SECOND_FACTOR == "auto"
        and User.objects.filter(is_active=True)[:2].count() < 2
    ):
        return False
    return not Authenticator.objects.filter(user=person, type__in=FACTORS).exists()


def waits(match: ResolverMatch, method: str) -> bool:
    """Return True if this request needs a second factor."""
    name, form = match.view_name, method not in SAFE_METHODS
    if name in APPROVES:
        return form
    if name.startswith(OPEN):
        return False
    ask = STEP_UP.get(name)
    if ask is not None:
        return form or ask.looking
    return bool(STEP_UP_NAMESPACES.keys() & set(match.namespaces)) and name not in (
        "admin:logout",
        "admin:login",
    )


def _judge(request: HttpRequest) -> HttpResponseBase | None:
    match = request.resolver_match
    assert match is not None  # Django sets it before it calls process_view
    if not waits(match, request.method or "") or not lacks_factor(request.user):
        return None
    back = (
        request.get_full_path()
        if request.method in SAFE_METHODS
        else request.headers.get("Referer", "")
    )
    return redirect(f"{reverse('second_factor')}?{urlencode({'next': back})}")


@sync_and_async_middleware
def ask_for_second_factor(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Redirect a person without a required second factor to the page that sets one up, before
    approvals and security pages.
    """
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
    return render(
        request,
        "accounts/second_factor.html",
        {"back": back, "done": not lacks_factor(request.user)},
    )
