"""Words of a kind that is not mail for its states, question and button, empty for mail; and the answer
to its effect.
"""

from collections.abc import Mapping

from django import template

from approvals.core.kinds import get_kind
from approvals.core.types import Answers, Speaks
from approvals.models import PendingAction

register = template.Library()


@register.filter
def words(action: PendingAction, what: str) -> str:
    kind = get_kind(action.kind)
    return str(kind.words.get(what, "")) if isinstance(kind, Speaks) else ""


@register.filter
def answer_of(action: PendingAction) -> Mapping[str, str] | None:
    kind = get_kind(action.kind)
    return kind.result(action.pk) if isinstance(kind, Answers) else None
