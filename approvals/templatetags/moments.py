"""Past and remaining time in one unit, because a queue is read at a glance."""

import math
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Literal

from django import template
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.dateformat import format as format_moment
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import get_language, gettext, npgettext_lazy, pgettext

register = template.Library()

Form = Literal["ago", "until", "moment", "moment_short", "clock"]
ANY = datetime(2000, 1, 1, tzinfo=UTC)
UNITS = (7 * 86_400, 86_400, 3600, 60)
# A longer time is counted in months, whose length depends on the date.
SOON = timedelta(hours=2)
SHORTEST_MONTH = timedelta(days=28)
# "in 2 days" and "2 days ago" need the dative in German. Django's own names are in the nominative.
SPANS: dict[str, Any] = {
    "year": npgettext_lazy("time span after a preposition", "%(num)d year", "%(num)d years", "num"),
    "month": npgettext_lazy(
        "time span after a preposition", "%(num)d month", "%(num)d months", "num"
    ),
    "week": npgettext_lazy("time span after a preposition", "%(num)d week", "%(num)d weeks", "num"),
    "day": npgettext_lazy("time span after a preposition", "%(num)d day", "%(num)d days", "num"),
    "hour": npgettext_lazy("time span after a preposition", "%(num)d hour", "%(num)d hours", "num"),
    "minute": npgettext_lazy(
        "time span after a preposition", "%(num)d minute", "%(num)d minutes", "num"
    ),
}


@register.filter
def since(moment: datetime) -> str:
    """Return the past time in the grammatical case that "ago" needs."""
    span = timezone.now() - moment
    if span < SHORTEST_MONTH:
        return _name_span(_in_one_unit(span), get_language())
    return timesince(moment, depth=1, time_strings=SPANS)


@register.filter
def until(moment: datetime) -> str:
    """Return the remaining time in the grammatical case that "in" needs."""
    span = moment - timezone.now()
    if span < SHORTEST_MONTH:
        return _name_span(_in_one_unit(span), get_language())
    return timeuntil(moment, depth=1, time_strings=SPANS)


def _in_one_unit(span: timedelta) -> int:
    """Return the seconds of a span, rounded down to its largest unit."""
    seconds = max(span // timedelta(seconds=1), 0)
    unit = next((each for each in UNITS if seconds >= each), UNITS[-1])
    return seconds // unit * unit


@lru_cache(maxsize=1024)
def _name_span(seconds: int, language: str | None) -> str:
    return timesince(ANY, ANY + timedelta(seconds=seconds), depth=1, time_strings=SPANS)


@register.filter
def seconds_left(moment: datetime | None) -> int:
    """Return the whole seconds until then; 0 if it is past or missing."""
    return max(math.ceil((moment - timezone.now()).total_seconds()), 0) if moment else 0


@register.filter
def is_soon(moment: datetime) -> bool:
    return moment - timezone.now() < SOON


@register.filter
def shown_as(moment: datetime, form: Form) -> SafeString:
    """Return the moment as an element, for a placeholder of a translated sentence."""
    if form == "ago":
        past = since(moment)
        said = gettext("%(past)s ago") % {"past": past}
        return _with_title(moment, gettext("just now") if past.startswith("0") else said)
    if form == "until":
        left = until(moment)
        said = gettext("in %(left)s") % {"left": left}
        return _with_title(moment, gettext("any moment") if left.startswith("0") else said)
    return SafeString(render_to_string(f"includes/{form}.html", {"at": moment}).strip())


def _with_title(moment: datetime, said: str) -> SafeString:
    """Return an element with the whole date as its title. A queue shows a hundred of them."""
    local = timezone.localtime(moment)
    minute, how = local.replace(second=0, microsecond=0), pgettext("date format", "j M Y, H:i T")
    title = _format_minute(minute, local.tzinfo, how, get_language())
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', local.isoformat(), title, SafeString(said)
    )


@lru_cache(maxsize=4096)
def _format_minute(at: datetime, zone: tzinfo | None, how: str, language: str | None) -> str:
    """Return the moment in its own zone, which is `zone`, and in the active language.

    Moments of two zones are equal if they are the same instant, so the zone is a part of the key.
    """
    return format_moment(at, how)


@register.filter
def countdown(seconds: int) -> SafeString:
    """Return an element that clocks.js counts down."""
    return format_html('<span data-seconds="{}">{}</span>', seconds, seconds)
