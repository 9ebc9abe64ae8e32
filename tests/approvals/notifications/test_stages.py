"""Each stage of an action notifies the people whom it concerns, once."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.connect.mailbox_status import mark_login_refused
from accounts.models import Mailbox, Membership, Role, User
from approvals.core.types import BEFORE_WIRE, Outcome
from approvals.gate import decide, news, rulings, send_back
from approvals.gate.load import lock_action
from approvals.gate.outcome import record_outcome
from approvals.gate.pauses import switch
from approvals.models import (
    ApprovalPolicy,
    Content,
    Notification,
    NotificationChannel,
    NotificationCursor,
    NotificationSettings,
    PendingAction,
    Reminder,
)
from approvals.outbound.notifications import digest, gather
from approvals.outbound.notifications.fitness import next_open
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.approvals.kinds import Script, handed_over
from tests.approvals.lost_answers import ACCEPTED, lost, order_again
from tests.approvals.notifications.conftest import Post, prove, stages
from tests.approvals.notifications.test_scale import add_actions
from tests.approvals.revisions import ask_back, edit
from tests.approvals.test_held_mail import set_rules
from tests.conftest import Api, Reviewer
from tests.support.work import work

__all__ = ["lost"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_forgotten_proposal_is_recalled_twice(post: Post, api: Api, bob: User) -> None:
    prove(bob)
    api.propose()
    action = PendingAction.objects.get()
    post.sweep()
    half = action.created_at + (action.expires_at - action.created_at) / 2
    for at in (half - timedelta(minutes=1), half, half + timedelta(hours=1)):
        post.sweep(after=at - timezone.now())
    assert stages(bob) == ["waiting", "half_time"]
    for minutes in (61, 60, 30):
        post.sweep(after=action.expires_at - timedelta(minutes=minutes) - timezone.now())
    assert stages(bob) == ["waiting", "half_time", "last_hour"]
    assert [mail["Subject"] for mail in post.to(bob)][1:] == [
        "A proposal still waits. Half of its time has passed. Hello",
        "A proposal expires within an hour. Hello",
    ]
    assert not Reminder.objects.exists()


def test_edited_proposal_is_recalled_before_its_new_end(
    post: Post, api: Api, reviewer: Reviewer, bob: User
) -> None:
    prove(bob)
    action_id = api.propose()
    post.sweep()
    old = PendingAction.objects.get().expires_at
    for days in (2, 4):
        send_at = (timezone.now() + timedelta(days=days)).isoformat()
        assert reviewer.decide(action_id, "edit", send_at=send_at).status_code == 302
        post.sweep(after=old - timedelta(minutes=30) - timezone.now())
        assert stages(bob).count("last_hour") == days / 2 - 1
        new = PendingAction.objects.get().expires_at
        post.sweep(after=new - timedelta(minutes=30) - timezone.now())
        assert stages(bob).count("last_hour") == days / 2


def test_undone_approval_is_recalled_before_its_new_end(
    post: Post,
    api: Api,
    reviewer: Reviewer,
    mailbox: Mailbox,
    alice: User,
    bob: User,
    settings: Any,
) -> None:
    """It was approved while the send window was closed, which moved its end."""
    settings.MAILHUB_UNDO_SECONDS = 60
    prove(bob)
    set_rules(mailbox, alice, open_days=str((timezone.now() + timedelta(days=3)).isoweekday()))
    action_id = api.propose()
    post.sweep()
    old = PendingAction.objects.get().expires_at
    for verdict in ("approve", "undo"):
        assert reviewer.decide(action_id, verdict).status_code == 302
    new = PendingAction.objects.get().expires_at

    post.sweep(after=old - timedelta(minutes=30) - timezone.now())
    assert "last_hour" not in stages(bob)
    post.sweep(after=new - timedelta(minutes=30) - timezone.now())
    assert stages(bob).count("last_hour") == 1


def test_decided_proposal_is_not_recalled(post: Post, api: Api, alice: User, bob: User) -> None:
    prove(bob)
    action = api.propose()
    post.sweep()
    approve(action, alice)
    post.sweep(after=timedelta(hours=13))
    assert stages(bob) == ["waiting"]
    assert Reminder.objects.count() == 1


def test_returned_proposal_is_news_each_time(
    post: Post, api: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    prove(bob)
    action = api.propose()
    post.sweep()
    policy = ApprovalPolicy.objects.create(mailbox=mailbox)
    for version in (1, 2):
        approve(action, alice)
        ApprovalPolicy.objects.filter(pk=policy.pk).update(version=version)
        send_back.send_back()
        post.sweep()
    assert stages(bob) == ["waiting", "returned", "returned"]
    assert "came back" in post.to(bob)[-1]["Subject"]


@pytest.mark.parametrize("cause", ["edit", "news", "rules", "own rules", "undo", "own undo"])
def test_person_whose_approval_is_void_is_asked_again(
    post: Post, api: Api, alice: User, bob: User, mailbox: Mailbox, settings: Any, cause: str
) -> None:
    """By an edit, news or rules after the first of two approvals, or if somebody else undoes it."""
    settings.MAILHUB_UNDO_SECONDS = 60
    prove(alice, bob)
    if cause == "own rules":
        Membership.objects.filter(user=bob).update(role=Role.MANAGER)
    action_id = api.propose()
    if "undo" not in cause:
        set_rules(mailbox, alice, approvals_needed=2)
    post.sweep()
    action = approve(action_id, bob)
    assert action.status == ("approved" if "undo" in cause else "pending")
    if cause == "edit":
        edit(action_id, alice, body="At ten.")
    elif "rules" in cause:
        set_rules(mailbox, alice if cause == "rules" else bob, approvals_needed=1)
    elif "undo" in cause:
        decide.undo(action_id=action.pk, person=alice if cause == "undo" else bob)
    else:
        with transaction.atomic():
            news.tell_news(lock_action(action.pk), [news.DECIDED_BEFORE])
    for _ in range(2):
        post.sweep()

    assert stages(bob) == ["waiting"] + ["returned"] * (cause != "own undo")
    assert "returned" not in stages(alice)


def test_withdrawal_is_told_to_those_who_approved(
    post: Post, api: Api, alice: User, bob: User
) -> None:
    prove(alice, bob)
    later = (timezone.now() + timedelta(days=1)).isoformat()
    by_program, by_bob = (api.propose(subject=each, send_at=later) for each in ("One", "Two"))
    for action_id in (by_program, by_bob):
        approve(action_id, bob)
    api.post(f"/actions/{by_program}/cancel")
    decide.cancel(
        action_id=PendingAction.objects.get(pk=by_bob).pk, caller=Caller(user=bob, surface="web")
    )
    post.sweep()

    told = Notification.objects.filter(user=bob, stage="failed").values_list("action", flat=True)
    assert [str(each) for each in told] == [by_program]
    assert post.to(bob)[-1]["Subject"] == "A proposal that you approved was withdrawn. One"


def test_ruling_that_withdraws_is_told_to_the_approver(
    post: Post, lost: PendingAction, alice: User, bob: User
) -> None:
    prove(alice, bob)
    rulings.resolve(action_id=lost.pk, person=bob, ruling="withdrawn", fence=lost.fence)
    post.sweep()
    assert (stages(alice), stages(bob)) == (["failed"], [])
    assert "you approved was withdrawn. It may have been sent" in str(post.to(alice)[-1])


def test_answer_goes_to_the_person_who_asked(post: Post, api: Api, alice: User, bob: User) -> None:
    prove(alice, bob)
    first = api.propose()
    post.sweep()
    ask_back(first, bob, "Say Friday, please.")
    api.propose(body="Until Friday.", replaces=first)
    post.sweep()
    assert stages(bob) == ["waiting", "answered"]
    assert stages(alice) == ["waiting", "waiting"]
    assert "was answered" in post.to(bob)[-1]["Subject"]


def test_unknown_outcome_asks_for_a_ruling_after_the_lookups(
    post: Post, approved: Callable[..., PendingAction], script: Script, bob: User
) -> None:
    prove(bob)
    script.instead = handed_over
    approved()
    work()
    post.sweep()
    assert post.mails == []
    post.sweep(after=timedelta(minutes=11))
    (mail,) = post.to(bob)
    assert "needs a ruling" in mail["Subject"]


@pytest.mark.parametrize("withdrawn", [False, True])
def test_copy_that_no_state_shows_is_told(
    post: Post, lost: PendingAction, api: Api, bob: User, withdrawn: bool
) -> None:
    """A person orders an unknown mail again, and the first one turns out to have been sent."""
    prove(bob)
    order_again(lost, bob)
    if withdrawn:
        api.post(f"/actions/{lost.pk}/cancel")
    else:
        work()
    post.sweep()
    assert "also_sent" not in stages(bob)
    record_outcome(lost.pk, 1, ACCEPTED, evidence="answer")
    post.sweep()
    assert stages(bob)[-1] == "also_sent"
    assert "was sent all the same, or twice" in post.to(bob)[-1]["Subject"]


def test_failed_mail_is_reported_to_its_approver(
    post: Post, approved: Callable[..., PendingAction], script: Script, alice: User, bob: User
) -> None:
    prove(alice, bob)
    script.instead = lambda approved: Outcome(verdict="refused", proof=BEFORE_WIRE, code="refused")
    approved()
    work()
    post.sweep()
    assert (stages(alice), stages(bob)) == (["failed"], [])


def test_approved_mail_that_expires_is_reported_to_its_approver(
    post: Post, approved: Callable[..., PendingAction], mailbox: Mailbox, alice: User, bob: User
) -> None:
    """It was approved while nothing may leave, so nobody would look for it."""
    prove(alice, bob)
    switch.pause(mailbox=mailbox, actor=f"user:{alice.pk}")
    action = approved()
    post.sweep()
    PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    maintenance.sweep()
    post.sweep()
    action.refresh_from_db()
    assert (action.status, stages(alice), stages(bob)) == ("expired", ["failed"], [])
    (mail,) = post.to(alice)
    assert f"/actions/{action.pk}/" in mail.get_content()


def test_failed_mail_that_may_have_left_is_reported_with_that_doubt(
    post: Post, approved: Callable[..., PendingAction], script: Script, alice: User, bob: User
) -> None:
    """An attempt of it is in doubt, and a person ordered another one, which expires."""
    prove(alice)
    script.instead = handed_over
    action = approved()
    work()
    rulings.resolve(action_id=action.pk, person=alice, ruling="not_sent", fence=1)
    PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    maintenance.sweep()
    post.sweep()

    (mail,) = post.to(alice)
    assert mail["Subject"] == (
        "A proposal that you approved failed. It may have been sent already. Hello"
    )


def test_refused_mailbox_is_reported_to_its_managers(
    post: Post, alice: User, bob: User, mailbox: Mailbox
) -> None:
    prove(alice, bob)
    mark_login_refused(mailbox)
    mark_login_refused(mailbox)
    post.sweep()
    assert (stages(alice), stages(bob)) == (["reconnect"], [])
    (mail,) = post.to(alice)
    assert mailbox.address in mail.get_content()


def test_refused_mailbox_is_named_as_its_rules_allow(
    post: Post, alice: User, mailbox: Mailbox
) -> None:
    prove(alice)
    ApprovalPolicy.objects.update_or_create(mailbox=mailbox, defaults={"notify_content": "link"})
    mark_login_refused(mailbox)
    post.sweep()
    (mail,) = post.to(alice)
    assert mailbox.address not in mail.get_content()


def test_late_commit_is_not_missed(post: Post, api: Api, bob: User) -> None:
    """An event with an earlier id may become visible after a later one was read."""
    prove(bob)
    api.propose()
    api.propose(subject="Another")
    post.sweep()
    cursor = NotificationCursor.objects.get()
    late, read = cursor.later[0], cursor.later[1:]
    Notification.objects.all().delete()
    NotificationCursor.objects.update(event=late - 1, later=read)  # as if `late` was not visible
    post.sweep()
    assert Notification.objects.count() == 1


def test_digest_counts_each_mailbox_once_a_day(
    post: Post, api: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    prove(bob)
    api.propose()
    approve(api.propose(subject="Another"), alice)
    work()
    now = timezone.now()
    NotificationSettings.objects.create(user=bob, digest="daily", digest_due_at=now)
    assert digest.add_due(now) == 1
    assert digest.add_due(now) == 0
    post.sweep()
    mail = next(each for each in post.to(bob) if each["Subject"] == "Your digest")
    assert (
        f"{mailbox.address}: 1 waiting, 1 sent, 0 rejected, failed or expired" in mail.get_content()
    )
    following = NotificationSettings.objects.get().digest_due_at
    assert following is not None
    assert timedelta() < following - now <= timedelta(days=1)


def test_digest_that_waited_over_the_weekend_misses_nothing(
    post: Post, api: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    prove(bob)
    approve(api.propose(), alice)
    work()
    saturday = timezone.now() - timedelta(days=2)
    PendingAction.objects.update(finished_at=saturday - timedelta(hours=12))
    NotificationSettings.objects.create(user=bob, digest="daily", digest_due_at=saturday)
    digest.add_due(saturday)

    post.sweep()

    mail = next(each for each in post.to(bob) if each["Subject"] == "Your digest")
    assert f"{mailbox.address}: 0 waiting, 1 sent" in mail.get_content()


def test_digest_calls_no_mail_in_doubt_unsent(
    post: Post,
    approved: Callable[..., PendingAction],
    script: Script,
    alice: User,
    mailbox: Mailbox,
) -> None:
    """The answer was lost, a person said that it was not sent, and the copy expired."""
    script.instead = handed_over
    action = approved()
    work()
    switch.pause(mailbox=mailbox, actor=f"user:{alice.pk}")
    rulings.resolve(action_id=action.pk, person=alice, ruling="not_sent", fence=1)
    PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    maintenance.sweep()

    settings = NotificationSettings(user=alice, digest="daily")
    (line,) = digest.summarize(settings, timezone.now(), content=Content.SUBJECT)

    assert line.endswith("0 sent, 1 rejected, failed or expired")


def test_digest_of_a_day_with_25_hours_has_all_of_them(api: Api, alice: User) -> None:
    api.propose()
    half_past_eight = datetime(2026, 10, 24, 6, 30, tzinfo=UTC)
    PendingAction.objects.update(status="rejected", finished_at=half_past_eight)
    settings = NotificationSettings(user=alice, digest="daily", time_zone="Europe/Berlin")

    at_eight = datetime(2026, 10, 25, 7, tzinfo=UTC)
    (line,) = digest.summarize(settings, at_eight, content=Content.SUBJECT)

    assert "1 rejected" in line


@pytest.mark.parametrize("limit", ["channel", "rules"])
def test_digest_that_shows_only_a_link_names_no_mailbox(
    post: Post, api: Api, bob: User, mailbox: Mailbox, limit: str
) -> None:
    prove(bob)
    api.propose()
    post.sweep()
    if limit == "channel":
        NotificationChannel.objects.update(content="link")
    else:
        ApprovalPolicy.objects.update_or_create(
            mailbox=mailbox, defaults={"notify_content": "link"}
        )
    now = timezone.now()
    NotificationSettings.objects.update(digest="daily", digest_due_at=now)
    digest.add_due(now)
    post.sweep()
    mail = next(each for each in post.to(bob) if each["Subject"] == "Your digest")
    assert "Mailboxes: 1 waiting, 0 sent, 0 rejected, failed or expired" in mail.get_content()
    assert mailbox.address not in mail.get_content()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("chosen", "now", "expected"),
    [
        ({}, "2026-11-23T23:00+01:00", "2026-11-23T23:00+01:00"),
        (
            {"quiet_from": "20:00", "quiet_until": "07:30"},
            "2026-11-23T23:00+01:00",
            "2026-11-24T07:30+01:00",
        ),
        (
            {"quiet_from": "20:00", "quiet_until": "07:30"},
            "2026-11-24T03:00+01:00",
            "2026-11-24T07:30+01:00",
        ),
        (
            {"quiet_from": "12:00", "quiet_until": "13:00"},
            "2026-11-23T12:30+01:00",
            "2026-11-23T13:00+01:00",
        ),
        ({"days": "12345"}, "2026-11-28T10:00+01:00", "2026-11-30T00:00+01:00"),
        (
            {"days": "12345", "quiet_from": "20:00", "quiet_until": "07:30"},
            "2026-11-27T21:00+01:00",
            "2026-11-30T07:30+01:00",
        ),
        # Clocks go back an hour in this night.
        (
            {"quiet_from": "20:00", "quiet_until": "07:30"},
            "2026-10-24T23:00+02:00",
            "2026-10-25T07:30+01:00",
        ),
    ],
)
def test_next_open_moment(chosen: dict[str, Any], now: str, expected: str) -> None:
    times = {
        name: time.fromisoformat(value) if name.startswith("quiet") else value
        for name, value in chosen.items()
    }
    person = NotificationSettings(time_zone="Europe/Berlin", **times)
    assert next_open(person, at(now)) == at(expected)


def test_one_sweep_reads_a_burst_of_proposals(
    bob: User, mailbox: Mailbox, settings: Any, post: Post
) -> None:
    settings.MAILHUB_NOTIFICATION_WAIT_SECONDS = 3600
    prove(bob)
    add_actions([mailbox], bob, 2 * gather.BATCH + 1)
    maintenance.sweep()
    assert Notification.objects.filter(user=bob).count() == 2 * gather.BATCH + 1
