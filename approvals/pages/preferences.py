"""Settings of a person for these pages: saved views, the order, and the switch for single keys."""

from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from accounts.access.signed_in import AuthenticatedRequest, signed_in_action, signed_in_form
from approvals.models import SavedView
from approvals.pages.forms import SavedViewForm
from approvals.pages.frame import KEYS_COOKIE, keys_are_on
from approvals.pages.orders import CHOICES, save_order
from approvals.pages.queue import Asked

A_YEAR = 365 * 24 * 3600
MOST_VIEWS = 20


@signed_in_action
def save_view(request: AuthenticatedRequest) -> HttpResponse:
    """Save a filter under a name; the same name again replaces it."""
    person = request.user
    form = SavedViewForm(request.POST)
    query = Asked.parse(QueryDict(request.POST.get("query", "")[:500])).query
    if form.is_valid() and SavedView.objects.filter(person=person).count() < MOST_VIEWS:
        SavedView.objects.update_or_create(
            person=person, name=form.cleaned_data["name"], defaults={"query": query[:500]}
        )
    return redirect(f"{reverse('queue')}?{query}")


@signed_in_action
def remove_view(request: AuthenticatedRequest, view_id: int) -> HttpResponse:
    view = get_object_or_404(SavedView, pk=view_id, person=request.user)
    view.delete()
    return redirect(f"{reverse('queue')}?{view.query}")


@signed_in_action
def choose_order(request: AuthenticatedRequest) -> HttpResponse:
    """Save the order of the pending actions for this person; another name changes nothing."""
    name = request.POST.get("order", "")
    if name in CHOICES:
        save_order(request.user, name)
    query = Asked.parse(QueryDict(request.POST.get("query", "")[:500])).query
    return redirect(f"{reverse('queue')}?{query}")


@signed_in_form
def keyboard(request: AuthenticatedRequest) -> HttpResponse:
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
    return render(request, "approvals/keyboard.html", {"keys_on": keys_are_on(request)})
