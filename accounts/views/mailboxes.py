"""The mailboxes page: what is connected, and whether it works."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.access import mailboxes
from accounts.auth import caller_of_session


@login_required
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/mailboxes.html", {"mailboxes": mailboxes(caller_of_session(request))})
