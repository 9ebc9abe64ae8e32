"""The reason for a general pause, for a notice on every page."""

from django import template

from approvals.pauses.switch import why_everything_is_paused

register = template.Library()


@register.simple_tag
def global_pause() -> str:
    """Return why mailhub has paused everything itself, as a sentence; an empty string otherwise."""
    return why_everything_is_paused()
