"""A webhook gets every step, with the words of people only for the program's own proposals."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from accounts.models import Mailbox, Membership, User
from approvals.gate import decide, rulings
from approvals.gate.execute import execute
from approvals.models import PendingAction, WebhookDelivery
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.approvals.kinds import Script, handed_over
from tests.approvals.revisions import ask_back, edit
from tests.approvals.webhook_listener import CANARY, Listener, httpserver, hurried, listener, told
from tests.conftest import Api, Reviewer, make_api
from tests.support.people.browser import set_rules

__all__ = ["httpserver", "listener"]
pytestmark = pytest.mark.django_db(transaction=True)
Step = Callable[[str, User], object]


def undo(action: str, person: User) -> None:
    row = PendingAction.objects.get(pk=action)
    set_rules(person, row.mailbox, undo_seconds=600)
    approve(action, person)
    decide.undo(action_id=row.pk, person=person)


STEPS: dict[str, Step] = {
    "action.edited": lambda action, person: edit(action, person, subject="Better"),
    "action.changes_requested": lambda action, person: ask_back(action, person, "Shorter"),
    "action.undone": undo,
    "action.cancelled": lambda action, person: Reviewer.signed_in(person).decide(action, "cancel"),
    "action.rejected": lambda action, person: Reviewer.signed_in(person).decide(
        action, "reject", note="Too early"
    ),
}


@pytest.mark.parametrize("event", STEPS)
def test_each_step_of_a_person_is_pushed(
    api: Api, alice: User, listener: Listener, event: str
) -> None:
    listener.added(api)
    action = api.propose(metadata={"order": "4711"})
    STEPS[event](action, alice)
    told()
    assert listener.types[-1] == event
    pushed, now = listener.heard[-1]["data"], api.get(f"/actions/{action}").json()
    same = ("state", "next", "sequence", "metadata", "review", "changes")
    assert {name: pushed.get(name) for name in same} == {name: now.get(name) for name in same}


def test_replaced_action_names_its_successor(api: Api, listener: Listener) -> None:
    listener.added(api, events=["action.superseded"])
    successor = api.propose(subject="Better", replaces=api.propose())
    told()
    assert listener.heard[-1]["data"]["superseded_by"] == successor


def test_return_is_pushed_with_its_reason(api: Api, bob: User, listener: Listener) -> None:
    listener.added(api)
    approve(api.propose(), bob)
    Membership.objects.filter(user=bob).delete()
    told()
    told()
    assert listener.types[-1] == "action.returned"
    data = listener.heard[-1]["data"]
    assert data["returned"] == {
        "code": "approver_lost",
        "detail": "Somebody who approved it may no longer approve for this mailbox.",
    }
    assert "review" not in data, "the approval no longer counts"


def test_other_programs_learn_the_verdict_but_no_words(
    api: Api, alice: User, mailbox: Mailbox, listener: Listener
) -> None:
    listener.added(make_api(alice, mailbox, name="watcher"))
    action = api.propose(metadata={"order": CANARY}, reason=CANARY)
    edit(action, alice, subject=CANARY)
    Reviewer.signed_in(alice).decide(action, "reject", note=CANARY)
    told()
    assert listener.types == ["action.proposed", "action.edited", "action.rejected"]
    assert listener.heard[-1]["data"]["review"] == {"verdict": "rejected", "changed": ["subject"]}


@pytest.mark.parametrize("own", [True, False])
def test_ruling_names_its_person_to_the_proposer_only(
    api: Api, alice: User, mailbox: Mailbox, listener: Listener,
    approved: Callable[..., PendingAction], script: Script, own: bool,
) -> None:  # fmt: skip
    listener.added(api if own else make_api(alice, mailbox, name="watcher"))
    action = approved()
    script.instead = handed_over
    execute(action.pk, worker="test")
    action.refresh_from_db()
    rulings.resolve(action_id=action.pk, person=alice, ruling="sent", fence=action.fence)
    told()
    receipt = listener.heard[-1]["data"]["receipt"]
    assert receipt["recipient_count"] == 1
    assert receipt.get("ruled_by") == ("Alice" if own else None)


def test_passage_of_a_mail_needs_the_scope_to_read(
    alice: User, mailbox: Mailbox, reviewer: Reviewer, listener: Listener
) -> None:
    writer = make_api(alice, mailbox, name="writer", scopes=["mail:propose", "webhooks:manage"])
    listener.added(writer)
    action = writer.propose()
    reviewer.decide(action, "ask_back", note="Shorter", passage="on Thursday")
    told()
    now = writer.get(f"/actions/{action}").json()
    (listed,) = writer.get("/actions").json()["items"]
    for told_to in (now, listed, listener.heard[-1]["data"]):
        assert told_to["review"].get("note") == "Shorter"
        assert "passage" not in told_to["review"]


def test_message_is_the_same_at_each_attempt(api: Api, alice: User, listener: Listener) -> None:
    listener.added(api, events=["action.changes_requested"])
    listener.answers = [500]
    action = api.propose()
    ask_back(action, alice, "Shorter")
    told()
    ask_back(action, alice, "Longer")
    edit(action, alice, subject="Better")
    hurried()
    told()
    first, again = (message for message in listener.heard if message["data"]["sequence"] == 2)
    assert first == again
    assert first["data"]["review"]["note"] == "Shorter"


def test_command_sends_a_delivery_again(api: Api, listener: Listener) -> None:
    listener.added(api, events=["action.proposed"])
    api.propose()
    told()
    call_command("deliver_again", listener.numbers[0].removeprefix("msg_"), verbosity=0)
    told()
    assert len(listener.heard) == 2
    assert len(set(listener.numbers)) == 1
    with pytest.raises(CommandError, match="no such delivery"):
        call_command("deliver_again", "7d444840-9dc0-11d1-b245-5ffdce74fad2")


def test_deliveries_are_kept_for_thirty_days(api: Api, listener: Listener, settings: Any) -> None:
    settings.MAILHUB_RETENTION_DAYS = 365
    listener.added(api, events=["action.proposed"])
    api.propose()
    told()
    for days, kept in ((29, 1), (31, 0)):
        WebhookDelivery.objects.update(at=timezone.now() - timedelta(days=days))
        maintenance.purge_others()
        assert WebhookDelivery.objects.count() == kept
