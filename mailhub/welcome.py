"""The first page for a person: the steps, and what is done of them.

The sandbox's person has five; a person who has joined by an invitation has two.
"""

from pathlib import Path
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render

from accounts.access.signed_in import AuthenticatedRequest, land_at, signed_in_page
from accounts.infra.foreign_text import load_json
from accounts.views.security import is_address
from approvals.lifecycle import queries
from mailhub.first_run import TOKEN_NAME
from mailhub.sandbox.state import SANDBOX


@signed_in_page
def welcome(request: AuthenticatedRequest) -> HttpResponse:
    """Return the page. Only the sandbox's person sees a token on it.

    That token is in `sandbox.json` on the same machine and gives access only to the sandbox. Other
    tokens are shown once, when they are made.
    """
    person = request.user
    has_way_in = person.has_usable_password() or Authenticator.objects.filter(user=person).exists()
    if not has_way_in:
        land_at(request, request.path)
    context = {
        "has_way_in": has_way_in,
        "no_passkeys_here": is_address(request.get_host()),
    }
    prepared = _sandbox()
    if prepared.get("user") == person.email:
        context |= {
            "secret": prepared["api_token"],
            "mailbox": prepared["mailbox"],
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
