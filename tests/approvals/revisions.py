"""Edits, questions and the review of an action, for tests of revisions."""

from typing import Any

from accounts.models import User
from approvals.gate import revise
from approvals.models import PendingAction
from tests.conftest import Api


def edit(action_id: str, person: User, **changes: Any) -> PendingAction:
    """Edit the stored revision."""
    action = PendingAction.objects.get(pk=action_id)
    return revise.edit(
        action_id=action.pk,
        person=person,
        digest=action.digest,
        revision=action.revision,
        changes=changes,
    )


def ask_back(action_id: str, person: User, note: str) -> PendingAction:
    action = PendingAction.objects.get(pk=action_id)
    return revise.ask_back(
        action_id=action.pk,
        person=person,
        digest=action.digest,
        revision=action.revision,
        note=note,
    )


def review(api: Api, action_id: str) -> Any:
    return api.get(f"/actions/{action_id}").json().get("review")
