"""Past and remaining time in one unit, because a queue is read at a glance."""

import math
from datetime import datetime
from typing import Literal

from django import template
from django.contrib.humanize.templatetags.humanize import NaturalTimeFormatter
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince, timeuntil

register = template.Library()

Form = Literal["ago", "until", "moment", "moment_short", "clock"]


@register.filter
def since(moment: datetime) -> str:
    """Return the past time in the grammatical case that "ago" needs."""
    return timesince(moment, depth=1, time_strings=NaturalTimeFormatter.past_substrings)


@register.filter
def until(moment: datetime) -> str:
    """Return the remaining time in the grammatical case that "in" needs."""
    return timeuntil(moment, depth=1, time_strings=NaturalTimeFormatter.future_substrings)


@register.filter
def seconds_left(moment: datetime | None) -> int:
    """Return the whole seconds until then; 0 if it is past or missing."""
    return max(math.ceil((moment - timezone.now()).total_seconds()), 0) if moment else 0


@register.filter
def shown_as(moment: datetime, form: Form) -> SafeString:
    """Return the moment as an element, for a placeholder of a translated sentence."""
    return SafeString(render_to_string(f"includes/{form}.html", {"at": moment}).strip())


@register.filter
def countdown(seconds: int) -> SafeString:
    """Return an element that clocks.js counts down."""
    return format_html('<span data-seconds="{}">{}</span>', seconds, seconds)
