"""A proposal that waits finds the people who may decide, by e-mail over the wire."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import ApprovalPolicy, Notification, NotificationChannel, PendingAction
from tests.approvals.conftest import approve
from tests.approvals.notifications.conftest import Post, prove
from tests.conftest import Api, Reviewer, make_api

pytestmark = pytest.mark.django_db(transaction=True)


def test_approver_gets_one_mail_with_a_link(
    post: Post, api: Api, alice: User, bob: User, charlie: User
) -> None:
    prove(alice, bob, charlie)
    action = api.propose(subject="Offer 7", body="The secret price is 12.")

    call_command("maintain")

    for person in (alice, bob):
        (mail,) = post.to(person)
        assert mail["Subject"] == "A proposal waits for your decision. Offer 7"
        assert mail["Auto-Submitted"] == "auto-generated"
        text = mail.get_content()
        assert f"https://mailhub.example/actions/{action}/" in text
        assert "https://mailhub.example/notifications/" in text
        assert "secret price" not in text
    assert post.to(charlie) == []
    call_command("maintain")
    assert len(post.mails) == 2


def test_unproven_address_gets_nothing(post: Post, api: Api, bob: User) -> None:
    api.propose()
    post.sweep()
    assert post.mails == []
    assert not NotificationChannel.objects.exists()


def test_proposals_that_arrive_together_are_one_mail(post: Post, api: Api, bob: User) -> None:
    prove(bob)
    actions = [api.propose(subject=f"Number {n}") for n in range(5)]
    post.sweep()
    (mail,) = post.to(bob)
    assert mail["Subject"] == "5 items need your attention"
    assert all(f"/actions/{action}/" in mail.get_content() for action in actions)
    assert len(set(Notification.objects.values_list("delivery", flat=True))) == 1


def test_mail_is_in_the_language_of_the_person(post: Post, api: Api, bob: User) -> None:
    prove(bob)
    User.objects.filter(pk=bob.pk).update(language="de")
    NotificationChannel.objects.create(user=bob, kind="email", content="link")
    api.propose()
    post.sweep()
    (mail,) = post.to(bob)
    assert mail["Message-ID"]


@pytest.mark.parametrize(
    ("content", "cap", "shown"),
    [
        ("link", "preview", []),
        ("subject", "preview", ["Offer 7"]),
        ("preview", "preview", ["Offer 7", "Hello Mira"]),
        ("preview", "subject", ["Offer 7"]),
        ("preview", "link", []),
    ],
)
def test_mail_shows_what_person_and_mailbox_allow(
    post: Post, api: Api, bob: User, mailbox: Mailbox, content: str, cap: str, shown: list[str]
) -> None:
    prove(bob)
    ApprovalPolicy.objects.create(mailbox=mailbox, notify_content=cap)
    NotificationChannel.objects.create(user=bob, kind="email", content=content)
    api.propose(subject="Offer 7")
    post.sweep()
    (mail,) = post.to(bob)
    whole = f"{mail['Subject']}\n{mail.get_content()}"
    assert [each for each in ("Offer 7", "Hello Mira") if each in whole] == shown


def test_only_people_who_may_approve_are_notified(
    post: Post, alice: User, bob: User, charlie: User, mailbox: Mailbox
) -> None:
    """The rule asks for another person than the proposer; a viewer never decides."""
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.VIEWER)
    prove(alice, bob, charlie)
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    make_api(alice, mailbox).propose()
    post.sweep()
    assert [len(post.to(person)) for person in (alice, bob, charlie)] == [0, 1, 0]


def test_decided_action_is_not_notified(post: Post, api: Api, alice: User, bob: User) -> None:
    prove(bob)
    approve(api.propose(), alice)
    post.sweep()
    assert post.mails == []


def test_decision_between_gather_and_delivery_stops_the_mail(
    post: Post, api: Api, bob: User, settings: object
) -> None:
    prove(bob)
    settings.MAILHUB_NOTIFICATION_WAIT_SECONDS = 60  # type: ignore[attr-defined]
    action = api.propose()
    post.sweep()
    PendingAction.objects.filter(pk=action).update(status="rejected", finished_at=timezone.now())
    post.sweep(after=timedelta(minutes=2))
    assert post.mails == []
    assert Notification.objects.get().code == "decided"


def test_person_who_lost_the_right_gets_nothing(
    post: Post, api: Api, bob: User, settings: object
) -> None:
    prove(bob)
    settings.MAILHUB_NOTIFICATION_WAIT_SECONDS = 60  # type: ignore[attr-defined]
    api.propose()
    post.sweep()
    Membership.objects.filter(user=bob).update(role=Role.PROPOSER)
    post.sweep(after=timedelta(minutes=2))
    assert post.mails == []
    assert Notification.objects.get().code == "no_right"


def test_person_at_the_page_is_not_notified(post: Post, api: Api, bob: User) -> None:
    prove(bob)
    action = api.propose()
    other = api.propose(subject="Another")
    client = Reviewer.signed_in(bob)
    client.page(action)
    token = client.client.cookies["csrftoken"].value
    client.client.post(f"/actions/{action}/presence/", {"csrfmiddlewaretoken": token})

    post.sweep()
    assert post.mails == []
    post.sweep(after=timedelta(minutes=2))

    (mail,) = post.to(bob)
    assert f"/actions/{other}/" in mail.get_content()
    assert f"/actions/{action}/" not in mail.get_content()


def test_removed_email_channel_stays_removed(post: Post, api: Api, bob: User) -> None:
    prove(bob)
    api.propose()
    post.sweep()
    NotificationChannel.objects.filter(user=bob).delete()
    api.propose(subject="Another")
    post.sweep()
    assert len(post.to(bob)) == 1


def test_email_of_a_new_person_brings_back_no_removed_one(
    post: Post, api: Api, alice: User, bob: User
) -> None:
    prove(bob)
    api.propose()
    post.sweep()
    NotificationChannel.objects.filter(user=bob).delete()
    prove(alice)
    api.propose(subject="Another")
    post.sweep()
    assert NotificationChannel.objects.get().user == alice
    assert len(post.to(bob)) == 1
