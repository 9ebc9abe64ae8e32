"""The mailboxes page: what is connected, and whether it works."""

from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.models import Mailbox, User


@login_required
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    # Those that are disconnected too: here they are connected again.
    mine = Mailbox.objects.filter(members=cast(User, request.user))
    return render(request, "accounts/mailboxes.html", {"mailboxes": mine})
