"""The page "Connect a program", and whether one has called since the page was opened."""

from datetime import UTC, datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.models import ApiToken
from accounts.views.program_lines import PROGRAMS

PLACEHOLDER = "mh_YOUR_TOKEN"


@signed_in_page
def connect(request: AuthenticatedRequest) -> HttpResponse:
    """Show how to connect each program."""
    return render(request, "accounts/connect_program.html")


def lines_context(secret: str = "") -> dict[str, object]:
    """Return what the lines of all programs need. Without a secret they show a placeholder."""
    url, token = settings.MAILHUB_PUBLIC_URL, secret or PLACEHOLDER
    programs = [
        {
            "key": program.key,
            "name": program.name,
            "from_internet": program.from_internet,
            "ways": [(way, way.fill(url, token)) for way in program.ways],
        }
        for program in PROGRAMS
    ]
    return {"programs": programs, "has_secret": bool(secret), "now": timezone.now().isoformat()}


@signed_in_page
def seen(request: AuthenticatedRequest) -> JsonResponse:
    """Return the names of the person's programs that have called since the moment `since`."""
    since = _moment(request)
    mine = ApiToken.objects.filter(user=request.user, last_used_at__gte=since) if since else []
    return JsonResponse({"connected": [token.name for token in mine]})


def _moment(request: HttpRequest) -> datetime | None:
    try:
        found = parse_datetime(request.GET.get("since", ""))
        return found.astimezone(UTC) if found is not None and timezone.is_aware(found) else None
    except (ValueError, OverflowError):  # also a time at the edge of the calendar
        return None
