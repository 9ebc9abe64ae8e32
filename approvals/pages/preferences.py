"""Settings of a person for these pages: saved views, and the switch for single keys."""

from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts.models import User
from approvals.models import SavedView
from approvals.pages import listing
from approvals.pages.forms import SavedViewForm
from approvals.pages.frame import KEYS_COOKIE, keys_are_on
from approvals.pages.queue import Asked

A_YEAR = 365 * 24 * 3600
MOST_VIEWS = 20


@login_required
@require_POST
def save_view(request: HttpRequest) -> HttpResponse:
    """Save a filter under a name; the same name again replaces it."""
    person = cast(User, request.user)
    form = SavedViewForm(request.POST)
    query = Asked.by(QueryDict(request.POST.get("query", "")[:500])).query
    if form.is_valid() and SavedView.objects.filter(person=person).count() < MOST_VIEWS:
        SavedView.objects.update_or_create(
            person=person, name=form.cleaned_data["name"], defaults={"query": query[:500]}
        )
    return redirect(f"{reverse('queue')}?{query}")


@login_required
@require_POST
def remove_view(request: HttpRequest, view_id: int) -> HttpResponse:
    view = get_object_or_404(SavedView, pk=view_id, person=cast(User, request.user))
    view.delete()
    return redirect(f"{reverse('queue')}?{view.query}")


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def keyboard(request: HttpRequest) -> HttpResponse:
    """Show all keys on one page, and the switch that turns the single ones off."""
    if request.method == "POST":
        response: HttpResponse = redirect("keyboard")
        response.set_cookie(
            KEYS_COOKIE,
            "off" if request.POST.get("keys") == "off" else "on",
            max_age=A_YEAR,
            samesite="Lax",
            secure=request.is_secure(),
            httponly=True,
        )
        return response
    context = {
        "keys_on": keys_are_on(request),
        "waiting": listing.waiting_for(cast(User, request.user)),
    }
    return render(request, "approvals/keyboard.html", context)
