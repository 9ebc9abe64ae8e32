"""What may be done with an action: one function for each use case, each one transaction with its audit event."""

from approvals.policies import judge, policy_of
from approvals.services.deciding import (
    STALE,
    approve,
    cancel,
    may_approve,
    may_decide,
    refusal_to_approve,
    reject,
    undo,
)
from approvals.services.pausing import (
    everything_is_paused,
    is_paused,
    pause,
    paused_among,
    resume,
    under_way,
    why_everything_is_paused,
)
from approvals.services.proposing import actor_of, duplicates_of, open_twin, propose, replaceable, replay
from approvals.services.resolving import may_order_again, refusal_to_rule, resolve
from approvals.services.revising import ask_back, changes_since, edit, edit_fields, last_seen, may_edit, saw
from approvals.services.ruling import change_rules

__all__ = [
    "STALE",
    "actor_of",
    "approve",
    "ask_back",
    "cancel",
    "change_rules",
    "changes_since",
    "duplicates_of",
    "edit",
    "edit_fields",
    "everything_is_paused",
    "is_paused",
    "judge",
    "last_seen",
    "may_approve",
    "may_decide",
    "may_edit",
    "may_order_again",
    "open_twin",
    "pause",
    "paused_among",
    "policy_of",
    "propose",
    "refusal_to_approve",
    "refusal_to_rule",
    "reject",
    "replaceable",
    "replay",
    "resolve",
    "resume",
    "saw",
    "under_way",
    "undo",
    "why_everything_is_paused",
]
