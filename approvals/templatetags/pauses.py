"""The reason for a general pause, for a notice on every page."""

from django import template

from approvals.pauses.switch import own_pause_reason

register = template.Library()


@register.simple_tag
def global_pause() -> str:
    """Return why mailhub has paused everything itself, as a sentence; an empty string otherwise."""
    return own_pause_reason()
