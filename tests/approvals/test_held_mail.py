"""The page of an approved mail that cannot leave yet says so; it does not expire before it may leave."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings

from accounts.infra.database import database_now
from accounts.models import Mailbox, User
from approvals.gate.rules import change
from approvals.gate.rules.change import RULES
from approvals.models import ApprovalPolicy, PendingAction
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)
TO_BE_SENT = "about to be sent"


def set_rules(mailbox: Mailbox, person: User, **changes: Any) -> ApprovalPolicy:
    policy = ApprovalPolicy(mailbox=mailbox)
    rules = {name: getattr(policy, name) for name in RULES} | changes
    change.change_rules(mailbox=mailbox, person=person, rules=rules)
    return ApprovalPolicy.objects.get(mailbox=mailbox)


def choose(reviewer: Reviewer, action_id: str) -> str:
    """Return the page of a bulk approval with this mail, which has been looked at."""
    reviewer.look(action_id)
    action = PendingAction.objects.get(pk=action_id)
    token = reviewer.client.cookies[settings.CSRF_COOKIE_NAME].value
    item = f"{action.pk}:{action.digest}:{action.revision}"
    answer = reviewer.client.post("/bulk/", {"item": item, "csrfmiddlewaretoken": token})
    return str(answer.content.decode())


def test_mail_does_not_expire_before_its_send_window_opens(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, alice: User
) -> None:
    opens_on = str((database_now() + timedelta(days=3)).isoweekday())
    opens = set_rules(mailbox, alice, open_days=opens_on).opens_at
    assert opens is not None
    action = PendingAction.objects.get(pk=api.propose())
    assert action.expires_at < opens
    assert f'datetime="{opens.isoformat()}"' in reviewer.page(str(action.pk)).content.decode()

    reviewer.decide(str(action.pk), "approve")
    work()

    action.refresh_from_db()
    assert (action.status, action.expires_at) == ("approved", opens + timedelta(hours=24))
    page = reviewer.page(str(action.pk)).content.decode()
    assert f'datetime="{opens.isoformat()}"' in page
    assert TO_BE_SENT not in page


def test_mail_outlives_a_send_window_that_moves(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, alice: User
) -> None:
    now = database_now()
    set_rules(mailbox, alice, open_days=str((now + timedelta(days=1)).isoweekday()))
    action_id = api.propose()
    reviewer.decide(action_id, "approve")

    opens = set_rules(
        mailbox, alice, open_days=str((now + timedelta(days=4)).isoweekday())
    ).opens_at

    assert opens is not None
    assert PendingAction.objects.get(pk=action_id).expires_at == opens + timedelta(hours=24)


@pytest.mark.parametrize(
    ("days_ago", "is_kept"), [(1, True), (2, True), (6, True), (7, True), (8, False)]
)
def test_mail_that_missed_its_window_waits_for_the_next(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, alice: User, days_ago: int, is_kept: bool
) -> None:
    """Approved in the window or before it; only once: mail that is held back for longer expires."""
    now = database_now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    yesterday = midnight - timedelta(days=1)
    action_id = api.propose()
    reviewer.decide(action_id, "approve")
    set_rules(mailbox, alice, open_days=str(yesterday.isoweekday()))
    ApprovalPolicy.objects.update(opens_at=yesterday, closes_at=midnight)
    approved_at, expires_at = midnight - timedelta(days=days_ago), now + timedelta(hours=1)
    PendingAction.objects.update(
        approved_at=approved_at, undo_until=approved_at, expires_at=expires_at
    )

    maintenance.sweep()

    opens = ApprovalPolicy.objects.get().opens_at
    assert opens == yesterday + timedelta(days=7)
    after = PendingAction.objects.get(pk=action_id)
    kept = opens + timedelta(hours=24) if is_kept else expires_at
    assert (after.status, after.expires_at) == ("approved", kept)


def test_page_says_that_the_approval_ends_before_it_may_leave(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, alice: User
) -> None:
    opens_on = str((database_now() + timedelta(days=3)).isoweekday())
    set_rules(mailbox, alice, open_days=opens_on, approval_minutes=60)
    action_id = api.propose()
    proposed = reviewer.page(action_id).content.decode()
    reviewer.decide(action_id, "approve")

    for page in (proposed, reviewer.page(action_id).content.decode()):
        assert "Nothing leaves this mailbox outside of its hours." in page
        assert "The approval ends before that" in page
    assert "if approved" not in proposed
    told = api.get(f"/actions/{action_id}").json()["next"]
    assert re.search(
        r"of its hours\. It leaves at \S+T00:00:00Z at the earliest\. The approval ends",
        told,
    )


def test_mail_does_not_expire_within_its_undo_window(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, alice: User
) -> None:
    set_rules(mailbox, alice, undo_seconds=3600, action_hours=1)
    action_id = api.propose()
    reviewer.decide(action_id, "approve")

    action = PendingAction.objects.get(pk=action_id)
    assert action.not_before is not None
    assert action.expires_at == action.not_before + timedelta(minutes=10)


def test_page_of_mail_for_later_names_its_time(api: Api, reviewer: Reviewer) -> None:
    later = (database_now() + timedelta(days=2)).replace(microsecond=0)
    action_id = api.propose(send_at=later.isoformat())
    reviewer.decide(action_id, "approve")

    page = reviewer.page(action_id).content.decode()

    assert f'datetime="{later.isoformat()}"' in page
    assert TO_BE_SENT not in page
    assert '<meta http-equiv="refresh" content="60">' in page
    row = reviewer.client.get("/?tab=leaving").content.decode()
    assert re.search(rf'leaves <time datetime="{re.escape(later.isoformat())}"', row)


def test_page_names_what_holds_its_mailbox_back(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, alice: User
) -> None:
    set_rules(mailbox, alice, daily_cap=1)
    first, second = api.propose(subject="First"), api.propose(subject="Second")
    reviewer.decide(first, "approve")
    assert "immediately after the approval" in reviewer.page(second).content.decode()
    work()
    proposed, chosen = reviewer.page(second).content.decode(), choose(reviewer, second)
    reviewer.decide(second, "approve")
    held = reviewer.page(second).content.decode()
    told = api.get(f"/actions/{second}").json()["next"]
    Mailbox.objects.filter(pk=mailbox.pk).update(status=Mailbox.Status.NEEDS_REAUTH)
    refused = reviewer.page(second).content.decode()

    for page in (proposed, chosen, held, told):
        assert "The daily limit of this mailbox is reached." in page
    assert "immediately after the approval" not in proposed
    assert "The mailbox must be reconnected first." in refused
    assert TO_BE_SENT not in held + refused


def test_page_promises_no_send_time_that_has_passed(api: Api, reviewer: Reviewer) -> None:
    passed = (database_now() - timedelta(hours=1)).replace(microsecond=0)
    page = reviewer.page(api.propose(send_at=passed.isoformat())).content.decode()

    assert f'datetime="{passed.isoformat()}"' not in page
    assert "immediately after the approval" in page


def test_mail_for_later_comes_back_before_its_time(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, alice: User
) -> None:
    """Else its page promises the send time until then, and nobody is asked in time."""
    later = database_now() + timedelta(days=2)
    action_id = api.propose(send_at=later.isoformat())
    reviewer.decide(action_id, "approve")
    set_rules(mailbox, alice, refused=["northwind.example"])

    maintenance.sweep()

    action = api.get(f"/actions/{action_id}").json()
    assert (action["state"], action["returned"]["code"]) == ("pending", "rules_changed")


def test_bulk_page_sends_nothing_that_needs_another_approval(
    api: Api, mailbox: Mailbox, alice: User, bob: User
) -> None:
    set_rules(mailbox, alice, approvals_needed=2)
    page = choose(Reviewer.signed_in(bob), api.propose())

    assert "Approve and send" not in page
    assert 'data-action="bulk-approve"' in page
