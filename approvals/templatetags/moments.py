"""Past and remaining time in one unit, because a queue is read at a glance."""

import math
from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.timesince import timesince, timeuntil

register = template.Library()


@register.filter
def since(moment: datetime) -> str:
    return timesince(moment, depth=1)


@register.filter
def until(moment: datetime) -> str:
    return timeuntil(moment, depth=1)


@register.filter
def seconds_left(moment: datetime | None) -> int:
    """Return the whole seconds until then; 0 if it is past or missing."""
    return max(math.ceil((moment - timezone.now()).total_seconds()), 0) if moment else 0
