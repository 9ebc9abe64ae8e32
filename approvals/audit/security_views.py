"""Security events for staff: sign-ins, failed sign-ins, and changes of sign-in methods."""

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.infra.problems import Problem
from approvals.audit import log
from approvals.audit.security import SecurityForm, rows_of

PAGE = 50


@signed_in_page
def index(request: AuthenticatedRequest) -> HttpResponse:
    """Show the events, newest first. The address holds the filters."""
    if not getattr(request.user, "is_staff", False):
        raise Http404
    form = SecurityForm(request.GET)
    try:
        logged = form.events(request.GET.get("cursor"), limit=PAGE)
    except Problem:  # an address that somebody typed or cut
        return redirect(f"{request.path}?{form.query}")
    context = {"form": form, "rows": rows_of(logged), "logged": logged, "window": log.WINDOW}
    return render(request, "approvals/security_events.html", context)
