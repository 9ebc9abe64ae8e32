"""Values of the page of notifications, by which a browser turns on push."""

from django import template

from accounts.models import User
from approvals.outbound.notifications.channels.adding import known_browsers
from approvals.outbound.notifications.channels.web_push import public_key

register = template.Library()


@register.simple_tag
def push_key() -> str:
    """Return the key that a browser subscribes with."""
    return public_key()


@register.simple_tag
def push_browsers(person: User) -> str:
    """Return the digests by which the page finds out whether its browser is a channel already."""
    return known_browsers(person)
