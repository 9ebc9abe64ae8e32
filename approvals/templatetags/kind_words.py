"""What a kind that is no mail calls its states, its question and its button; empty where the words
for mail will do.
"""

from django import template

from approvals.core.kinds import kind_named
from approvals.core.types import Speaks
from approvals.models import PendingAction

register = template.Library()


@register.filter
def words(action: PendingAction, what: str) -> str:
    kind = kind_named(action.kind)
    return str(kind.words.get(what, "")) if isinstance(kind, Speaks) else ""
