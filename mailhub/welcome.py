"""The sandbox's first page for a person: the waiting mail, and the lines to connect a program."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.infra.foreign_text import load_json
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
    context = {
        "secret": prepared["api_token"],
        "mailbox": prepared["mailbox"],
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
