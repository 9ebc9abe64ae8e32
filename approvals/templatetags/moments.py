"""How long ago, and how long still, in one unit: a queue is read at a glance."""

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
    """Whole seconds until then; 0 when it is past or never."""
    return max(math.ceil((moment - timezone.now()).total_seconds()), 0) if moment else 0
