"""Answers to an action that was sent, and reports about its recipients."""

from datetime import datetime
from typing import Any

from accounts.infra.foreign_text import load_json
from approvals.models import PendingAction, Watch


def watch_of(action: PendingAction) -> Watch | None:
    """Return the watch of this action, or None without one."""
    if action.first_event is not None:
        return None
    try:
        return action.watch
    except Watch.DoesNotExist:
        return None


def note_answer(action: PendingAction, *, at: datetime, by: str) -> None:
    """Store the answer that withdrew an action, which nothing is looked for any more."""
    watch = Watch(action=action, mailbox_id=action.mailbox_id, began_at=at)
    watch.answered_at, watch.answered_by = at, by
    watch.save(force_insert=True)


def reports_of(watch: Watch) -> list[dict[str, Any]]:
    """Return the reports, the oldest first; empty if no key opens them."""
    try:
        return list(load_json(watch.reports or "[]"))
    except ValueError:
        return []


def describe(watch: Watch | None, *, reads: bool) -> dict[str, Any]:
    """Return the contract's members about answers and reports; addresses only if the caller `reads`."""
    members: dict[str, Any] = {}
    if watch is None:
        return members
    if watch.answered_at:
        members["answered_at"] = watch.answered_at
        if reads and watch.answered_by:
            members["answered_by"] = watch.answered_by
    return members
