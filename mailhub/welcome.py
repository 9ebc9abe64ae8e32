"""The sandbox's first page for a person: what waits, and the lines that let a program in."""

import json
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from accounts.models import User


@login_required
@never_cache
@require_safe
def welcome(request: HttpRequest) -> HttpResponse:
    """For the person of the sandbox alone: its token stands in `sandbox.json` on the same machine,
    and opens nothing but the sandbox. Everybody else's tokens are shown once, when they are made.
    """
    prepared = _sandbox()
    if prepared.get("user") != cast(User, request.user).email:
        raise Http404
    context = {
        "secret": prepared["api_token"],
        "url": settings.MAILHUB_PUBLIC_URL,
        "mailbox": prepared["mailbox"],
        "may_propose": True,
    }
    return render(request, "welcome.html", context)


def _sandbox() -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(
            (Path(settings.MAILHUB_HOME) / "sandbox.json").read_text()
        )
    except (OSError, ValueError):
        return {}
    return content if settings.MAILHUB_ALLOW_LOOPBACK_HOSTS else {}
