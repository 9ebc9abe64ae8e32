"""What may be done with an action: one function for each use case, each one transaction with its audit event."""

from approvals.services.deciding import (
    STALE,
    approve,
    cancel,
    may_approve,
    may_decide,
    reject,
    undo,
    valid_approvals,
)
from approvals.services.pausing import is_paused, pause, resume, under_way
from approvals.services.proposing import actor_of, duplicates_of, open_twin, policy_of, propose, replaceable, replay
from approvals.services.resolving import resolve
from approvals.services.revising import ask_back, changes_since, edit, edit_fields, may_edit, saw

__all__ = [
    "STALE",
    "actor_of",
    "approve",
    "ask_back",
    "cancel",
    "changes_since",
    "duplicates_of",
    "edit",
    "edit_fields",
    "is_paused",
    "may_approve",
    "may_decide",
    "may_edit",
    "open_twin",
    "pause",
    "policy_of",
    "propose",
    "reject",
    "replaceable",
    "replay",
    "resolve",
    "resume",
    "saw",
    "under_way",
    "undo",
    "valid_approvals",
]
