"""The reason for a general pause, for a notice on every page."""

from django import template
from django.template import Context

from approvals.gate.pauses.switch import own_pause_reason

register = template.Library()


@register.simple_tag(takes_context=True)
def global_pause(context: Context) -> str:
    """Return why mailhub has paused everything itself, as a sentence; an empty string otherwise.

    A view that has read it puts it into `own_pause`.
    """
    known = context.get("own_pause")
    return own_pause_reason() if known is None else known
