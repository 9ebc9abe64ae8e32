"""The time zone in which a person reads and types times.

The script of the pages sends it in a cookie; without the cookie it is UTC.
"""

from collections.abc import Callable
from datetime import tzinfo
from functools import cache
from inspect import iscoroutinefunction
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware

COOKIE = "zone"


@cache
def _known_zones() -> frozenset[str]:
    return frozenset(available_timezones())


def get_zone(name: str) -> tzinfo:
    """Return the zone of that name; UTC for an unknown one.

    A name from a browser is never looked up on disk.
    """
    return ZoneInfo(name) if name in _known_zones() else timezone.get_default_timezone()


@sync_and_async_middleware
def in_their_zone(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Return middleware that shows times on pages in the reader's zone.

    Answers for programs name UTC explicitly and stay in UTC.
    """
    if iscoroutinefunction(answer):

        async def respond_async(request: HttpRequest) -> Any:
            with timezone.override(get_zone(request.COOKIES.get(COOKIE, ""))):
                return await answer(request)

        return respond_async

    def respond(request: HttpRequest) -> Any:
        with timezone.override(get_zone(request.COOKIES.get(COOKIE, ""))):
            return answer(request)

    return respond
