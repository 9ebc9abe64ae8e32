"""Programs receive the events of actions: signed, at least once, without content, and only those
that their token may see.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals import guards
from approvals.core.types import BEFORE_WIRE, ApprovedAction, Outcome
from approvals.models import AuditEvent, PendingAction
from tests.approvals.kinds import Script, handed_over
from tests.approvals.webhook_listener import CANARY, Listener, httpserver, listener, told
from tests.conftest import Api, Reviewer
from tests.support.people.browser import set_rules
from tests.support.work import work

__all__ = ["httpserver", "listener"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_webhook_reports_steps_without_content(
    api: Api, reviewer: Reviewer, listener: Listener, settings: Any
) -> None:
    listener.added(api)
    action = api.propose(subject=CANARY, body=CANARY)
    told()
    reviewer.decide(action, "approve")
    work()
    told()

    assert listener.types == [
        "action.proposed", "action.approved", "action.leaving", "action.succeeded",
    ]  # fmt: skip
    assert [message["data"]["state"] for message in listener.heard] == [
        "pending",
        "approved",
        "executing",
        "succeeded",
    ]
    assert [message["data"]["sequence"] for message in listener.heard] == [1, 2, 3, 4]
    for message, event in zip(
        listener.heard, ("created", "approved", "claimed", "outcome_accepted"), strict=True
    ):
        link = AuditEvent.objects.get(event=event)
        assert message["data"].pop("audit") == {"sequence": link.sequence, "hash": link.hash}
    assert listener.heard[0]["data"] == {
        "id": action,
        "state": "pending",
        "tool": "send_email",
        "mailbox": "alice@lovelace.example",
        "review_url": f"{settings.MAILHUB_PUBLIC_URL}/actions/{action}/",
        "sequence": 1,
        "next": "A person has not decided yet. Wait for the decision, and do not propose it again.",
    }
    last = listener.heard[-1]["data"]
    assert last["receipt"] == api.get(f"/actions/{action}").json()["receipt"]
    assert last["review"] == {"by": "Alice", "verdict": "approved"}
    assert len(set(listener.numbers)) == 4
    told()
    assert len(listener.heard) == 4, "what was taken is not told again"


def test_unreadable_event_does_not_block_later_ones(
    api: Api, reviewer: Reviewer, listener: Listener
) -> None:
    listener.added(api)
    reviewer.decide(api.propose(), "approve")
    with guards.lift_guards(connection):
        AuditEvent.objects.filter(event="approved").update(data={})
    work()
    told()
    assert listener.types == ["action.proposed", "action.leaving", "action.succeeded"]


def late(action: str) -> None:
    PendingAction.objects.filter(pk=action).update(expires_at=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("end", "event"),
    [
        (
            lambda action, reviewer: reviewer.decide(action, "reject", note=CANARY),
            "action.rejected",
        ),
        (
            lambda action, reviewer: reviewer.decide(action, "ask_back", note=CANARY),
            "action.changes_requested",
        ),
        (lambda action, reviewer: late(action), "action.expired"),
    ],
    ids=["rejected", "changes_requested", "expired"],
)
def test_end_without_a_send_is_reported(
    api: Api,
    reviewer: Reviewer,
    listener: Listener,
    end: Callable[[str, Reviewer], Any],
    event: str,
) -> None:
    listener.added(api)
    listener.content = True
    end(api.propose(), reviewer)
    told()
    told()  # the events that the first sweep itself has closed
    assert listener.types == ["action.proposed", event]
    assert listener.heard[-1]["data"].get("review", {}).get("note", CANARY) == CANARY


def refused(approved: ApprovedAction) -> Outcome:
    return Outcome(verdict="refused", proof=BEFORE_WIRE, code="refused", detail="No")


@pytest.mark.parametrize(
    ("instead", "event"), [(refused, "action.failed"), (handed_over, "action.unknown")]
)
def test_failed_or_doubtful_send_is_reported_as_such(
    api: Api,
    reviewer: Reviewer,
    listener: Listener,
    script: Script,
    instead: Callable[[ApprovedAction], Outcome],
    event: str,
) -> None:
    listener.added(api)
    script.instead = instead
    reviewer.decide(api.propose(), "approve")
    work()
    told()
    assert listener.types == ["action.proposed", "action.approved", "action.leaving", event]


def test_one_approval_of_two_is_not_reported_as_approved(
    api: Api, alice: User, bob: User, mailbox: Mailbox, listener: Listener
) -> None:
    dora = User.objects.create_user("dora@lovelace.example")
    Membership.objects.create(mailbox=mailbox, user=dora, role=Role.APPROVER)
    set_rules(alice, mailbox, approvals_needed=2, self_approval=False)
    listener.added(api, events=["action.approved"])
    action = api.propose()
    Reviewer.signed_in(bob).decide(action, "approve")
    told()
    assert listener.types == []
    Reviewer.signed_in(dora).decide(action, "approve")
    told()
    assert listener.types == ["action.approved"]


def test_only_chosen_new_events_are_delivered(api: Api, listener: Listener) -> None:
    before = api.propose(subject="Before")
    listener.added(api, events=["action.proposed"])
    after = api.propose(subject="After")
    api.post(f"/actions/{before}/cancel")
    told()
    assert [message["data"]["id"] for message in listener.heard] == [after]


def test_secrets_follow_a_rotation_of_the_keys(api: Api, listener: Listener, settings: Any) -> None:
    listener.added(api, events=["action.proposed"])
    first = settings.MAILHUB_ENCRYPTION_KEYS[0]
    settings.MAILHUB_ENCRYPTION_KEYS = ["bmV3" * 10 + "bmU=", first]
    call_command("rotate_keys", verbosity=0)
    settings.MAILHUB_ENCRYPTION_KEYS = settings.MAILHUB_ENCRYPTION_KEYS[:1]
    api.propose()
    told()
    assert listener.types == ["action.proposed"]
