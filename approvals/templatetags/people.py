"""Names of people in a sentence."""

from collections.abc import Sequence

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from accounts.models import User

register = template.Library()
NAMED = 3


@register.filter
def either(people: Sequence[User]) -> SafeString:
    """Return "Bo", "Bo or Cleo", or "Bo, Cleo, Dan or 4 others"."""
    return _join(people, gettext("%(first)s or %(last)s"))


@register.filter
def all_of(people: Sequence[User]) -> SafeString:
    """Return "Bo", "Bo and Cleo", or "Bo, Cleo, Dan and 4 others"."""
    return _join(people, gettext("%(first)s and %(last)s"))


def _join(people: Sequence[User], said: str) -> SafeString:
    named = [format_html("<bdi>{}</bdi>", each.get_short_name() or each) for each in people[:NAMED]]
    more = len(people) - len(named)
    if more:
        others = ngettext("%(count)s other", "%(count)s others", more) % {"count": more}
        named.append(format_html("{}", others))
    if len(named) == 1:
        return named[0]
    first = format_html_join(", ", "{}", ((each,) for each in named[:-1]))
    return SafeString(said % {"first": first, "last": named[-1]})  # both are escaped
