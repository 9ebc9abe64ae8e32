"""The sandbox's first page for a person: five steps, and what is done of them."""

from pathlib import Path
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.infra.foreign_text import load_json
from approvals.lifecycle import queries
from mailhub.first_run import TOKEN_NAME
from mailhub.sandbox.state import SANDBOX


@signed_in_page
def welcome(request: AuthenticatedRequest) -> HttpResponse:
    """Return the page, only for the sandbox's person, because it shows a token.

    That token is in `sandbox.json` on the same machine and gives access only to the sandbox. Other
    tokens are shown once, when they are made.
    """
    prepared = _sandbox()
    if prepared.get("user") != request.user.email:
        raise Http404
    person = request.user
    context = {
        "secret": prepared["api_token"],
        "mailbox": prepared["mailbox"],
        "has_way_in": person.has_usable_password()
        or Authenticator.objects.filter(user=person).exists(),
        "has_decided": queries.has_decided(person),
        "has_proposed": queries.has_proposed(person, by=TOKEN_NAME),
    }
    return render(request, "welcome.html", context)


def _sandbox() -> dict[str, Any]:
    try:
        content: dict[str, Any] = load_json(
            (Path(settings.MAILHUB_HOME) / "sandbox.json").read_text()
        )
    except (OSError, ValueError):
        return {}
    return content if SANDBOX in settings.MAILHUB_LOOPBACK_SERVERS else {}
