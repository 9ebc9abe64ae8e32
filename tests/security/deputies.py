"""People who name deputies and decide, by the pages."""

from datetime import timedelta
from typing import Any

import time_machine
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import PendingAction
from tests.support.people.browser import browser


def member(mailbox: Mailbox, name: str, role: Role) -> User:
    person = User.objects.create_user(f"{name.lower()}@lovelace.example", first_name=name)
    Membership.objects.create(mailbox=mailbox, user=person, role=role)
    return person


def name_deputy(person: User, deputy: User, *, starts: int = 0, days: int = 2) -> Any:
    # The form refuses yesterday, so midnight must not pass between these days and the post.
    with time_machine.travel(timezone.now(), tick=False):
        today = timezone.localdate()
        form = {
            "deputy": deputy.pk,
            "since": str(today + timedelta(days=starts)),
            "until": str(today + timedelta(days=starts + days)),
        }
        return browser(person).post("/deputies/", form)


def decide(person: User, action_id: str, verdict: str = "approve", **fields: Any) -> int:
    action = PendingAction.objects.get(pk=action_id)
    shown = {"digest": action.digest, "revision": action.revision}
    return browser(person).post(f"/actions/{action_id}/{verdict}/", {**shown, **fields}).status_code


def state_of(action_id: str) -> str:
    return str(PendingAction.objects.get(pk=action_id).status)
