"""How long ago, and how long still, in one unit: a queue is read at a glance."""

from datetime import datetime

from django import template
from django.utils.timesince import timesince, timeuntil

register = template.Library()


@register.filter
def since(moment: datetime) -> str:
    return timesince(moment, depth=1)


@register.filter
def until(moment: datetime) -> str:
    return timeuntil(moment, depth=1)
