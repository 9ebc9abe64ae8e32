"""The time zone in which a person reads and types times.

The script of the pages sends it in a cookie; without the cookie it is UTC.
"""

from collections.abc import Callable
from datetime import tzinfo
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest
from django.utils import timezone

COOKIE = "zone"
NO_PLACES = (
    "Etc/",
    "SystemV/",
    "posix/",
    "right/",
    "US/",
    "Mexico/",
    "Brazil/",
    "Chile/",
    "Canada/",
)


@cache
def _known_zones() -> frozenset[str]:
    return frozenset(available_timezones())


def get_zone(name: str) -> tzinfo:
    """Return the zone of that name; UTC for an unknown one.

    A name from a browser is never looked up on disk.
    """
    return ZoneInfo(name) if name in _known_zones() else timezone.get_default_timezone()


def offered_zones(chosen: str = "") -> list[str]:
    """Return the names to choose from: places, UTC, and the chosen one.

    The database also has names of files and systems, such as Factory, localtime and Etc/GMT+10.
    """
    places = {name for name in _known_zones() if "/" in name and not name.startswith(NO_PLACES)}
    return sorted(places | {"UTC"} | ({chosen} & _known_zones()))


def zone_of_reader() -> str:
    """Return the name of the zone in which this request shows times."""
    return timezone.get_current_timezone_name()


def in_their_zone(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Return middleware that shows times on pages in the reader's zone.

    Answers for programs name UTC explicitly and stay in UTC.
    """

    def respond(request: HttpRequest) -> Any:
        with timezone.override(get_zone(request.COOKIES.get(COOKIE, ""))):
            return answer(request)

    return respond
