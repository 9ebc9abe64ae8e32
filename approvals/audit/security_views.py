"""Security events for staff: who signed in, failed to, or changed a way in."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from accounts.infra.problems import Problem
from approvals.audit import log
from approvals.audit.security import SecurityForm, rows_of

PAGE = 50


@login_required
@never_cache
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The newest first. Filters stand in the address."""
    if not getattr(request.user, "is_staff", False):
        raise Http404
    form = SecurityForm(request.GET)
    try:
        logged = form.events(request.GET.get("cursor"), limit=PAGE)
    except Problem:  # an address somebody typed or shortened
        return redirect(f"{request.path}?{form.query}")
    context = {"form": form, "rows": rows_of(logged), "logged": logged, "window": log.WINDOW}
    return render(request, "approvals/security_events.html", context)
