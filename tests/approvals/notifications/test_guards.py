"""The outbox holds against workers that interleave, and people who lost their rights meanwhile."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.infra.database import database_now
from accounts.models import Mailbox, Membership, Role, User
from approvals.gate.rules.approvers import find_approvers
from approvals.gate.rules.policy import may_approve
from approvals.models import (
    ApprovalPolicy,
    AuditEvent,
    Notification,
    NotificationChannel,
    NotificationCursor,
    PendingAction,
)
from approvals.outbound.notifications import courier, gather, outbox
from approvals.outbound.notifications.outbox import Event
from tests.approvals.conftest import approve
from tests.approvals.notifications.conftest import Post, prove
from tests.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def waiting(post: Post, api: Api, bob: User) -> Notification:
    """Return a notification of Bob that is due and not sent yet."""
    prove(bob)
    api.propose()
    gather.gather()
    return Notification.objects.get()


def test_channel_of_a_busy_worker_is_left_alone(waiting: Notification, post: Post) -> None:
    now = timezone.now()
    NotificationChannel.objects.update(busy_until=now + timedelta(seconds=30))
    courier.deliver(waiting.channel_id, now=now)
    assert post.mails == []
    assert courier.find_waiting(now) == []
    courier.deliver(waiting.channel_id, now=now + timedelta(seconds=31))
    assert len(post.mails) == 1


def test_row_of_another_worker_is_not_sent(waiting: Notification, post: Post) -> None:
    """A worker that was frozen between its check and its mark finds the row marked."""
    channel = NotificationChannel.objects.select_related("user").get()
    Notification.objects.update(state="sending")
    assert not courier._mark([waiting], waiting.channel.pk, timezone.now())
    waiting.refresh_from_db()
    assert (waiting.state, waiting.delivery) == ("sending", None)
    courier.deliver(channel.pk)
    assert post.mails == []


def test_young_events_are_not_passed(waiting: Notification) -> None:
    """An earlier id may still be committed, so the cursor waits until the events are settled."""
    newest = AuditEvent.objects.latest("pk").pk
    cursor = NotificationCursor.objects.get()
    assert cursor.event < newest
    assert newest in cursor.later
    gather.gather(timezone.now() + timedelta(minutes=3))
    cursor.refresh_from_db()
    assert (cursor.event, cursor.later) == (newest, [])
    assert not gather.find_unread().exists()


def test_person_who_left_the_mailbox_gets_no_news(
    waiting: Notification, post: Post, bob: User
) -> None:
    action = PendingAction.objects.get()
    now = timezone.now()
    Notification.objects.all().delete()
    outbox.add(
        [Event(stage=Notification.Stage.MENTIONED, people=[bob.pk], action_id=action.pk)], now=now
    )
    Membership.objects.filter(user=bob).delete()
    courier.deliver(waiting.channel_id, now=now)
    assert post.mails == []
    assert Notification.objects.get().code == "no_right"


@pytest.mark.parametrize(
    "rules",
    [{}, {"approver_role": "manager"}, {"self_approval": False}, {"approvals_needed": 2}],
    ids=str,
)
def test_notified_people_are_those_who_may_approve(
    api: Api, mailbox: Mailbox, alice: User, bob: User, rules: dict[str, Any]
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, **rules)
    api.propose()
    for role in Role:
        Membership.objects.filter(user=bob).update(role=role)
        action = PendingAction.objects.get()
        may = {each.pk for each in (alice, bob) if may_approve(each, action)}
        assert find_approvers([action])[action.pk] == may, role


@pytest.mark.parametrize("stage", ["mentioned", "assigned"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_decision_drops_an_earlier_mention(
    waiting: Notification, alice: User, bob: User, stage: str, when: str
) -> None:
    Notification.objects.all().delete()
    action = PendingAction.objects.get()
    if when == "after":
        approve(action.pk, alice)
    outbox.add([Event(stage=stage, people=[bob.pk], action_id=action.pk)], now=database_now())
    if when == "before":
        approve(action.pk, alice)
    courier.deliver(waiting.channel_id)
    found = Notification.objects.get(stage=stage)
    assert (found.state, found.code) == (
        ("dropped", "decided") if when == "before" else ("sent", "")
    )
