"""Durations and rates in a few characters, for tables."""

from django import template
from django.utils.formats import number_format
from django.utils.translation import gettext as _

register = template.Library()

MINUTE, HOUR, DAY = 60, 3600, 86_400


@register.filter
def duration(seconds: float | None) -> str:
    """Return seconds in the largest unit that fits; a dash for None."""
    if seconds is None:
        return "-"
    if seconds < MINUTE:
        return _("%(n)s s") % {"n": round(seconds)}
    if seconds < HOUR:
        return _("%(n)s min") % {"n": round(seconds / MINUTE)}
    if seconds < DAY:
        return _("%(n)s h") % {"n": _format_short(seconds / HOUR)}
    return _("%(n)s d") % {"n": _format_short(seconds / DAY)}


def _format_short(number: float) -> str:
    rounded = round(number, 1)
    return str(number_format(int(rounded) if rounded.is_integer() else rounded))


@register.filter
def rate(part: float | None) -> str:
    """Return a part from 0 to 1 in percent; a dash for None."""
    return "-" if part is None else _("%(n)s %%") % {"n": round(100 * part)}
