"""Words of a kind that is not mail, empty for mail; and the answers to its effect."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import template
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from approvals.core.types import get_kind
from approvals.gate import watches
from approvals.models import PendingAction

register = template.Library()


@register.filter
def words(action: PendingAction, what: str) -> str:
    """Return a word of its kind, in the language of the reader; empty for mail."""
    return str(get_kind(action.kind).words.get(what, ""))


@register.filter
def purpose(action: PendingAction, preview: Mapping[str, Any] | None) -> SafeString:
    """Return in one line of HTML why the action is here; empty if its content is removed."""
    if not preview:
        return SafeString()
    proposer = format_html("<b><bdi>{}</bdi></b>", action.proposer_name or action.proposer)
    if action.proposer_name:  # a person could have the same name
        said = conditional_escape(gettext("Agent %(name)s"))
        proposer = SafeString(said % {"name": proposer})
    if line := get_kind(action.kind).explain(action.tool, preview, proposer):
        return SafeString(line)
    return SafeString(conditional_escape(gettext("%(name)s proposed this.")) % {"name": proposer})


@register.filter
def responses_of(action: PendingAction) -> Mapping[str, Any]:
    """Return the answer to the action and the reports about it, with their times."""
    found = watches.describe(watches.watch_of(action), reads=True)
    for name in ("bounced", "auto_replies"):
        for each in found.get(name, ()):
            each["at"] = datetime.fromisoformat(each["at"])
    return found


@register.filter
def answer_of(action: PendingAction) -> Mapping[str, str] | None:
    return get_kind(action.kind).result(action.pk)
