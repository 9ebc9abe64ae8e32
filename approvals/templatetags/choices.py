"""Choices of a page with thousands of them, which a loop in a template makes slowly."""

from collections.abc import Iterable

from django import template
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from accounts.models import Mailbox

register = template.Library()
SELECTED = mark_safe(" selected")  # a text of our own


@register.filter
def as_options(mailboxes: Iterable[Mailbox], chosen: str) -> SafeString:
    """Return the options of a select, with the mailbox of this id chosen."""
    rows = (
        (key := str(each.pk), SELECTED if key == chosen else "", each.address) for each in mailboxes
    )
    return format_html_join("\n", '<option value="{}"{}>{}</option>', rows)
