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
from accounts.models import ApiToken, Membership, RequestRecord, User
from accounts.views.security import is_address
from approvals.gate import find
from mailhub.sandbox.state import SANDBOX, TOKEN_NAME


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
            "has_decided": find.has_decided(person),
            "has_proposed": find.has_proposed(person, by=TOKEN_NAME),
            "has_connected": _has_connected(person),
            **_growth(person, prepared["mailbox"]),
        }
    return render(request, "welcome.html", context)


def _has_connected(person: User) -> bool:
    """Return True if a program has called, other than the line of the step before it."""
    mine = ApiToken.objects.filter(user=person)
    return (
        mine.filter(last_used_at__isnull=False).exclude(name=TOKEN_NAME).exists()
        or RequestRecord.objects.filter(
            token__in=mine.filter(name=TOKEN_NAME), surface="mcp"
        ).exists()
    )


def _growth(person: User, address: str) -> dict[str, Any]:
    """Return the id of the sandbox's mailbox, and what the person has added to it."""
    mine = list(Membership.objects.filter(user=person).values_list("mailbox", "mailbox__address"))
    here = next((pk for pk, found in mine if found == address), None)
    return {
        "mailbox_id": here,
        "has_second_mailbox": len(mine) > 1,
        "has_colleague": Membership.objects.filter(mailbox=here).exclude(user=person).exists(),
    }


def _sandbox() -> dict[str, Any]:
    try:
        content: dict[str, Any] = load_json(
            (Path(settings.MAILHUB_HOME) / "sandbox.json").read_text()
        )
    except (OSError, ValueError):
        return {}
    return content if SANDBOX in settings.MAILHUB_LOOPBACK_SERVERS else {}
