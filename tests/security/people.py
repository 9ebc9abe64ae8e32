"""Members of a mailbox who decide, by the pages."""

from typing import Any

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import PendingAction
from tests.support.people.browser import browser


def member(mailbox: Mailbox, name: str, role: Role) -> User:
    person = User.objects.create_user(f"{name.lower()}@lovelace.example", first_name=name)
    Membership.objects.create(mailbox=mailbox, user=person, role=role)
    return person


def decide(person: User, action_id: str, verdict: str = "approve", **fields: Any) -> int:
    action = PendingAction.objects.get(pk=action_id)
    shown = {"digest": action.digest, "revision": action.revision}
    return browser(person).post(f"/actions/{action_id}/{verdict}/", {**shown, **fields}).status_code


def state_of(action_id: str) -> str:
    return str(PendingAction.objects.get(pk=action_id).status)
