"""The number of mails that wait for the person, for the menu on every page."""

from django import template
from django.template import Context

from approvals.pages import listing

register = template.Library()


@register.simple_tag(takes_context=True)
def count_waiting(context: Context) -> int:
    """Return how many mails wait for the person; a view that has counted puts it into `waiting`."""
    known: int | None = context.get("waiting")
    if known is None and context["user"].is_authenticated:
        return listing.count_waiting(context["user"])
    return known or 0
