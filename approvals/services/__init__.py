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
from approvals.services.proposing import actor_of, duplicates_of, open_twin, policy_of, propose, replay
from approvals.services.resolving import resolve

__all__ = [
    "STALE",
    "actor_of",
    "approve",
    "cancel",
    "duplicates_of",
    "is_paused",
    "may_approve",
    "may_decide",
    "open_twin",
    "pause",
    "policy_of",
    "propose",
    "reject",
    "replay",
    "resolve",
    "resume",
    "under_way",
    "undo",
    "valid_approvals",
]
