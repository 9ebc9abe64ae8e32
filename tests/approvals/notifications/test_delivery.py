"""A delivery is retried if nothing arrived, and never repeated if it may have arrived."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import (
    ApprovalPolicy,
    Notification,
    NotificationChannel,
    NotificationSettings,
    PendingAction,
)
from approvals.outbound.notifications import courier, gather, outbox
from approvals.worker import background, maintenance
from tests.approvals.notifications.conftest import Post, prove
from tests.conftest import Api
from tests.support.people.browser import browser
from tests.support.processes.programs import until

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _proven(bob: User) -> None:
    prove(bob)


def test_absent_server_delays_the_mail_and_loses_nothing(post: Post, api: Api, bob: User) -> None:
    post.server.drop(at="greeting", times=2)
    api.propose()
    post.sweep()
    row = Notification.objects.get()
    assert (row.state, row.attempts, row.code) == ("waiting", 1, "smtp_not_sent")
    post.sweep(after=timedelta(seconds=20))  # before its time
    assert Notification.objects.get().attempts == 1
    post.sweep(after=timedelta(minutes=1))
    post.sweep(after=timedelta(minutes=5))
    assert len(post.to(bob)) == 1
    row = Notification.objects.get()
    assert (row.state, row.attempts, row.channel.failures) == ("sent", 3, 0)


def test_absent_server_pauses_no_channel(post: Post, api: Api, bob: User) -> None:
    """A busy person has more proposals within minutes than a channel may fail."""
    post.server.drop(at="greeting", times=None)
    for number in range(courier.PAUSED_AFTER + 1):
        api.propose(subject=f"Number {number}")
        post.sweep()
    post.server.heal()
    post.sweep(after=timedelta(minutes=5))
    (mail,) = post.to(bob)
    assert mail["Subject"] == f"{courier.PAUSED_AFTER + 1} items need your attention"


def test_one_sweep_reaches_more_channels_than_it_has_threads(
    post: Post, api: Api, mailbox: Mailbox
) -> None:
    people = [
        User.objects.create(email=f"p{number}@lovelace.example")
        for number in range(3 * background.AT_ONCE)
    ]
    prove(*people)
    for person in people:
        Membership.objects.create(mailbox=mailbox, user=person, role=Role.APPROVER)
    api.propose()
    maintenance.sweep(resident=True)
    until(lambda: not Notification.objects.filter(state__in=("waiting", "sending")).exists())
    assert all(len(post.to(person)) == 1 for person in people)


def test_lost_answer_is_no_reason_to_send_again(post: Post, api: Api, bob: User) -> None:
    post.server.drop(at="accepted")
    api.propose()
    for hours in range(4):
        post.sweep(after=hours * HOUR)
    assert len(post.to(bob)) == 1
    row = Notification.objects.get()
    assert (row.state, row.code) == ("unknown", "smtp_unknown")


def test_frozen_worker_leaves_an_unknown_delivery(post: Post, api: Api, bob: User) -> None:
    api.propose()
    now = post.sweep()
    Notification.objects.update(state="sending", due_at=now - timedelta(seconds=1))
    courier.end_lost(now)
    post.sweep(after=HOUR)
    assert len(post.to(bob)) == 1
    assert Notification.objects.get().code == "worker_lost"


def test_refusal_ends_the_notification(post: Post, api: Api) -> None:
    post.server.reply("550 5.1.1 No such person", at="rcpt")
    api.propose()
    post.sweep()
    post.sweep(after=HOUR)
    assert post.mails == []
    assert Notification.objects.get().state == "failed"


def test_failing_channel_is_paused_and_the_page_says_so(post: Post, api: Api, bob: User) -> None:
    post.server.reply("550 5.1.1 No such person", at="rcpt", times=None)
    for number in range(courier.PAUSED_AFTER):
        api.propose(subject=f"Number {number}")
        post.sweep()
    api.propose(subject="One more")
    post.sweep()
    assert Notification.objects.count() == courier.PAUSED_AFTER

    page = browser(bob).get("/notifications/").content.decode()
    assert "The mail server refused it." in page
    post.server.heal()
    channel = NotificationChannel.objects.get()
    assert browser(bob).post(f"/notifications/{channel.pk}/resume/").status_code == 302
    api.propose(subject="After that")
    post.sweep()
    assert len(post.to(bob)) == 1


def test_channel_gets_only_so_many_an_hour(post: Post, api: Api, bob: User, settings: Any) -> None:
    settings.MAILHUB_NOTIFICATIONS_PER_HOUR = 1
    api.propose()
    post.sweep()
    api.propose(subject="Another")
    post.sweep()
    assert len(post.to(bob)) == 1
    assert Notification.objects.filter(state="waiting", due_at__gt=timezone.now()).count() == 1


def test_quiet_hours_hold_a_notification(post: Post, api: Api, bob: User) -> None:
    now = timezone.now()
    NotificationSettings.objects.create(
        user=bob, quiet_from=(now - HOUR).time(), quiet_until=(now + HOUR).time()
    )
    api.propose()
    post.sweep()
    assert post.mails == []
    post.sweep(after=HOUR + timedelta(minutes=1))
    assert len(post.to(bob)) == 1


def test_end_of_quiet_hours_by_their_person_releases_what_waits(
    post: Post, api: Api, bob: User
) -> None:
    now = timezone.now()
    NotificationSettings.objects.create(
        user=bob, quiet_from=(now - HOUR).time(), quiet_until=(now + HOUR).time()
    )
    api.propose()
    post.sweep()
    assert post.mails == []
    without = {"quiet_from": "", "quiet_until": "", "time_zone": "UTC", "digest": "none"}
    assert browser(bob).post("/notifications/", without).status_code == 302
    post.sweep()
    assert len(post.to(bob)) == 1


@pytest.mark.parametrize("loud", [True, False])
def test_rules_let_urgent_ones_break_quiet_hours(
    post: Post, api: Api, bob: User, mailbox: Mailbox, loud: bool
) -> None:
    api.propose()
    post.sweep()
    ApprovalPolicy.objects.create(mailbox=mailbox, notify_urgent=loud)
    last = PendingAction.objects.get().expires_at - timedelta(minutes=59)
    NotificationSettings.objects.update(
        quiet_from=(last - HOUR).time(), quiet_until=(last + HOUR).time()
    )
    post.sweep(after=last - timezone.now())
    subjects = [mail["Subject"] for mail in post.to(bob)]
    assert any("expires within an hour" in each for each in subjects) is loud


def test_inactive_person_gets_nothing(post: Post, api: Api, bob: User, settings: Any) -> None:
    settings.MAILHUB_NOTIFICATION_WAIT_SECONDS = 60
    api.propose()
    post.sweep()
    User.objects.filter(pk=bob.pk).update(is_active=False)
    post.sweep(after=HOUR)
    assert post.mails == []
    assert Notification.objects.get().code == "not_active"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a small table is scanned anyway")
def test_delivery_reads_no_old_notifications(post: Post, api: Api) -> None:
    """Each statement finds its rows by an index, however many were sent in thirty days."""
    api.propose()
    gather.gather()
    with CaptureQueriesContext(connection) as queries:
        post.sweep()
    changes = [each["sql"] for each in queries if each["sql"].startswith("UPDATE")]
    rows = [text for text in changes if '"approvals_notification"' in text and "SELECT" not in text]
    assert len(rows) >= 2
    with connection.cursor() as cursor:
        for text in rows:
            cursor.execute(f"EXPLAIN QUERY PLAN {text}")
            assert "SCAN approvals_notification" not in str(cursor.fetchall()), text


def test_sent_notification_is_kept_for_thirty_days(post: Post, api: Api) -> None:
    api.propose()
    post.sweep()
    Notification.objects.update(created_at=timezone.now() - timedelta(days=31))
    outbox.forget_old()
    assert not Notification.objects.exists()


def test_server_without_mail_sends_none_and_creates_none(
    api: Api, bob: User, settings: Any
) -> None:
    settings.SENDS_MAIL = False
    api.propose()
    call_command("maintain")
    assert not Notification.objects.exists()
