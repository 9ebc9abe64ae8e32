"""The page of a person's notifications: channels, hours, a test, and what was sent and why."""

from typing import Any

import pytest

from accounts.models import User
from approvals.models import Notification, NotificationChannel, NotificationSettings
from tests.approvals.notifications.conftest import Post, prove
from tests.conftest import Api
from tests.support.people.browser import browser

pytestmark = pytest.mark.django_db(transaction=True)
WHEN = {"quiet_from": "20:00", "quiet_until": "07:00", "time_zone": "Europe/Berlin"}


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


def test_page_lists_what_was_sent_and_why(post: Post, api: Api, bob: User, alice: User) -> None:
    prove(bob)
    api.propose(subject="Offer 7")
    post.sweep()
    page = text_of(browser(bob).get("/notifications/"))
    assert "A proposal waits for your decision." in page
    assert "Offer 7" not in page
    assert "A proposal waits" not in text_of(browser(alice).get("/notifications/"))


def test_first_visit_turns_email_on_for_a_proven_address(post: Post, bob: User) -> None:
    page = text_of(browser(bob).get("/notifications/"))
    assert "Turn on e-mail" not in page
    assert "sign in once by a mailed code" in page
    assert not NotificationChannel.objects.exists()
    prove(bob)
    browser(bob).get("/notifications/")
    assert NotificationChannel.objects.get().kind == "email"


def test_hours_days_and_digest_are_saved(bob: User) -> None:
    form = {**WHEN, "days": ["1", "2", "3"], "digest": "weekly"}
    assert browser(bob).post("/notifications/", form).status_code == 302
    saved = NotificationSettings.objects.get(user=bob)
    assert (saved.days, str(saved.quiet_from), saved.digest) == ("123", "20:00:00", "weekly")
    assert saved.digest_due_at is not None
    assert saved.digest_due_at.isoweekday() == 1


def test_half_of_quiet_hours_is_refused(bob: User) -> None:
    answer = browser(bob).post("/notifications/", {**WHEN, "quiet_until": "", "digest": "none"})
    assert "Enter both times, or neither." in text_of(answer)
    assert NotificationSettings.objects.get().quiet_from is None


def test_test_shows_the_real_answer(post: Post, bob: User) -> None:
    prove(bob)
    client = browser(bob)
    client.get("/notifications/")
    channel = NotificationChannel.objects.get()
    good = client.post(f"/notifications/{channel.pk}/test/", follow=True)
    assert "The test was taken." in text_of(good)
    (mail,) = post.to(bob)
    assert mail["Subject"] == "Test of your notifications"
    post.server.reply("550 5.1.1 Nobody reads that", at="rcpt")
    bad = client.post(f"/notifications/{channel.pk}/test/", follow=True)
    assert "550 5.1.1 Nobody reads that" in text_of(bad)
    assert not Notification.objects.exists()


def test_foreign_channel_is_not_there(post: Post, alice: User, bob: User) -> None:
    channel = NotificationChannel.objects.create(user=bob, kind="email")
    for verb in ("", "test/", "resume/", "remove/"):
        answer = browser(alice).post(f"/notifications/{channel.pk}/{verb}", {"content": "link"})
        assert answer.status_code == 404
    assert NotificationChannel.objects.filter(pk=channel.pk).exists()


def test_email_is_turned_off_and_on(post: Post, bob: User) -> None:
    prove(bob)
    client = browser(bob)
    client.get("/notifications/")
    client.post(f"/notifications/{NotificationChannel.objects.get().pk}/remove/")
    client.get("/notifications/")
    assert not NotificationChannel.objects.exists()
    client.post("/notifications/email/")
    assert NotificationChannel.objects.get().content == "subject"
