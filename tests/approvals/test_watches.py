"""Answers to sent mail, returned mail, automatic replies, and mail that nobody answers."""

import time
from collections.abc import Callable
from datetime import timedelta
from email.message import EmailMessage
from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.utils import timezone

from accounts.models import User
from approvals.gate import overdue
from approvals.gate.rulings import resolve
from approvals.models import AuditEvent, PendingAction, Watch, WatchedMailbox, Webhook
from approvals.reports.steps import EVENTS, has_news
from approvals.worker import maintenance, watch
from tests.approvals.conftest import approve
from tests.approvals.notifications.conftest import Post, post, prove
from tests.approvals.webhook_listener import Listener, httpserver, listener, told
from tests.conftest import Api, Reviewer, make_api
from tests.support.reports import report
from tests.support.servers.memory import MemoryProvider, MemoryServer
from tests.support.work import work
from tools.providers.base import Thread
from tools.providers.errors import Unavailable

__all__ = ["httpserver", "listener", "post"]
pytestmark = pytest.mark.django_db(transaction=True)

SHOWN = b"<exchange@prod.outlook.example>"
ALICE, MIRA = "alice@lovelace.example", "mira@northwind.example"
PEOPLE = [MIRA, "ben@northwind.example", "Jo@alps.example"]


def send(api: Api, alice: User, **more: Any) -> PendingAction:
    action = approve(api.propose(**more), alice)
    work()
    action.refresh_from_db()
    assert action.status == "succeeded"
    return action


def answer(action: PendingAction, sender: str = MIRA, **headers: str) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, ALICE, "Re: Hello"
    message["Message-ID"] = headers.pop("id", "<answer@northwind.example>")
    message["In-Reply-To"] = action.message_id
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content("Thank you.")
    return message.as_bytes()


def look() -> None:
    """Let a minute pass, and sweep."""
    WatchedMailbox.objects.filter(look_at__isnull=False).update(
        look_at=timezone.now() - timedelta(seconds=1)
    )
    watch.LOOKS.finish()


def pass_days(days: float) -> None:
    """Let the mails be sent so many days earlier."""
    for each in Watch.objects.all():
        span = timedelta(days=days)
        each.began_at -= span
        each.ends_at = each.ends_at and each.ends_at - span
        each.follow_up_at = each.follow_up_at and each.follow_up_at - span
        each.save()


def events(name: str) -> int:
    return AuditEvent.objects.filter(event=name).count()


def told_of(api: Api, action: PendingAction) -> dict[str, Any]:
    answer: dict[str, Any] = api.get(f"/actions/{action.pk}").json()
    return answer


def test_answer_is_in_the_action_and_in_lists(
    api: Api, alice: User, server: MemoryServer, reviewer: Reviewer
) -> None:
    answered, silent = send(api, alice), send(api, alice, subject="Other")
    server.deliver(ALICE, answer(answered))

    look()

    shown = told_of(api, answered)
    assert (shown["state"], shown["answered_by"]) == ("succeeded", MIRA)
    assert "answered_at" in shown
    assert "answered_at" not in told_of(api, silent)
    for word, action in (("true", answered), ("false", silent)):
        (item,) = api.get(f"/actions?answered={word}").json()["items"]
        assert item["id"] == str(action.pk)
    assert f"{MIRA}</bdi> answered" in reviewer.page(str(answered.pk)).content.decode()


def test_address_of_an_answer_needs_the_right_to_read(
    alice: User, mailbox: Any, server: MemoryServer
) -> None:
    blind = make_api(alice, mailbox, name="blind", scopes=["mail:propose"])
    action = send(blind, alice)
    server.deliver(ALICE, answer(action))
    server.deliver(ALICE, report(action.message_id, MIRA, to=ALICE))

    look()

    shown = told_of(blind, action)
    assert "answered_at" in shown
    assert MIRA not in str(shown)


def test_automatic_reply_is_named_and_no_answer(
    api: Api, alice: User, server: MemoryServer, reviewer: Reviewer
) -> None:
    action = send(api, alice)
    server.deliver(ALICE, answer(action, Auto_Submitted="auto-replied"))

    look()
    look()

    shown = told_of(api, action)
    assert "answered_at" not in shown
    assert [each["address"] for each in shown["auto_replies"]] == [MIRA]
    assert "It is no answer" in reviewer.page(str(action.pk)).content.decode()


def test_report_about_one_of_three_recipients(
    api: Api,
    alice: User,
    server: MemoryServer,
    reviewer: Reviewer,
    listener: Listener,
    post: Post,
) -> None:
    prove(alice)
    listener.added(api)
    action = send(api, alice, to=PEOPLE)
    server.deliver(ALICE, report(action.message_id, "jo@ALPS.example", to=ALICE))

    look()
    told()
    post.sweep()

    shown = told_of(api, action)
    assert (shown["state"], shown["receipt"]["recipient_count"]) == ("succeeded", 3)
    (row,) = shown["bounced"]
    assert (row["address"], row["status"]) == ("Jo@alps.example", "5.1.1")
    assert shown["next"].startswith("It was sent, but a server returned it")
    page = reviewer.page(str(action.pk)).content.decode()
    assert "Sent, but returned" in page
    assert "accepted the message for 3 recipients" in page
    assert "Jo@alps.example" in page
    assert "returned by a server" in reviewer.client.get("/?tab=sent").content.decode()
    assert listener.types[-1] == "action.bounced"
    assert listener.heard[-1]["data"]["bounced"] == shown["bounced"]
    mails = [str(each.get_content()) for each in post.to(alice)]
    assert sum("did not reach a recipient" in each for each in mails) == 1


@pytest.mark.parametrize("stored", ["now", "by 0.2.0", "chosen"])
def test_webhook_of_all_events_gets_those_of_later_versions(
    api: Api, alice: User, server: MemoryServer, listener: Listener, stored: str
) -> None:
    migration = import_module("approvals.migrations.0050_webhooks_of_all_events")
    listener.added(api)
    if stored != "now":
        former = migration.FIRST - ({"action.proposed"} if stored == "chosen" else set())
        Webhook.objects.update(events=sorted(former))
        migration.widen(apps, None)
    action = send(api, alice)
    server.deliver(ALICE, report(action.message_id, MIRA, to=ALICE))

    look()
    told()

    assert ("action.bounced" in listener.types) == (stored != "chosen")
    (shown,) = api.get("/webhooks").json()["items"]
    assert (shown["events"] == list(EVENTS)) == (stored != "chosen")


def test_look_after_a_kill_says_nothing_twice(api: Api, alice: User, server: MemoryServer) -> None:
    action = send(api, alice, to=PEOPLE)
    server.deliver(ALICE, report(action.message_id, PEOPLE[0], to=ALICE))
    before = WatchedMailbox.objects.get()
    look()
    server.deliver(ALICE, report(action.message_id, *PEOPLE[:2], to=ALICE))

    for _ in range(2):
        # The worker was killed before it noted how far it had read.
        before.look_at = timezone.now() - timedelta(seconds=1)
        before.save()
        watch.LOOKS.finish()

    assert [row["address"] for row in told_of(api, action)["bounced"]] == PEOPLE[:2]
    assert events("bounced") == 2
    assert len(server.ledger) == 1


def test_report_about_foreign_mail_changes_nothing(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action = send(api, alice)
    server.deliver(ALICE, report("<other@lovelace.example>", MIRA, to=ALICE))

    look()

    assert "bounced" not in told_of(api, action)


def test_silence_is_said_once_and_sends_nothing(
    api: Api, alice: User, server: MemoryServer, listener: Listener, reviewer: Reviewer
) -> None:
    listener.added(api)
    wish = {"after_days": 3, "note": "Ask for the contract again."}
    proposed = api.propose(follow_up=wish)
    assert wish["note"] in reviewer.page(proposed).content.decode()
    action = approve(proposed, alice)
    work()
    look()
    assert not has_news(action.pk)  # a program waits for it

    pass_days(3)
    look()
    look()
    told()

    shown = told_of(api, action)
    assert shown["next"].startswith("It was sent, and nobody has answered.")
    assert shown["follow_up_note"] == wish["note"]
    assert (events("unanswered"), len(server.ledger), PendingAction.objects.count()) == (1, 1, 1)
    assert listener.types[-1] == "action.unanswered"
    assert has_news(action.pk)


@pytest.mark.parametrize("folder", ["inbox", "archive"])
def test_answer_ends_the_follow_up(
    api: Api, alice: User, server: MemoryServer, folder: str
) -> None:
    action = send(api, alice, follow_up={"after_days": 3})
    server.deliver(ALICE, answer(action), folder=folder)

    pass_days(3)
    look()

    assert "answered_at" in told_of(api, action)
    assert events("unanswered") == 0


def test_automatic_reply_does_not_end_the_follow_up(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action = send(api, alice, follow_up={"after_days": 3})
    server.deliver(ALICE, answer(action, Auto_Submitted="auto-replied"))

    pass_days(3)
    look()

    assert events("unanswered") == 1


def test_look_while_the_clock_was_ahead_hides_no_answer(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action = send(api, alice)
    server.deliver(ALICE, answer(action))
    then = timezone.now() + timedelta(days=3)
    WatchedMailbox.objects.update(look_at=then, seen_until=then)

    watch.LOOKS.finish()

    assert "answered_at" in told_of(api, action)


def test_nothing_is_said_right_after_the_clock_jumped(
    api: Api, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = send(api, alice, follow_up={"after_days": 3})
    maintenance.sweep(resident=True)
    pass_days(3)
    WatchedMailbox.objects.update(look_at=timezone.now() - timedelta(seconds=1))
    real: Callable[[int], float] = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) - 3 * 86_400)

    maintenance.sweep(resident=True)

    assert watch.find_due().exists()
    assert "unanswered_at" not in told_of(api, action)


def test_mailbox_is_asked_at_most_once_a_minute(api: Api, alice: User) -> None:
    send(api, alice)
    first = WatchedMailbox.objects.get().look_at
    look()
    second = WatchedMailbox.objects.get().look_at

    assert first is not None
    assert second is not None
    assert second - timezone.now() > timedelta(seconds=50)
    assert not watch.find_due().exists()


def test_nothing_is_watched_after_thirty_days(api: Api, alice: User, server: MemoryServer) -> None:
    action = send(api, alice)
    pass_days(31)
    look()
    server.deliver(ALICE, answer(action))

    assert WatchedMailbox.objects.get().look_at is None
    assert not watch.find_due().exists()
    # The next mail begins it again.
    send(api, alice, subject="Other")
    assert WatchedMailbox.objects.get().look_at is not None


def test_answered_mail_is_watched_for_returns_only(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action = send(api, alice, to=PEOPLE)
    server.deliver(ALICE, answer(action))
    look()
    assert WatchedMailbox.objects.get().look_at is not None

    pass_days(6)
    look()

    assert WatchedMailbox.objects.get().look_at is None


def test_mailbox_that_does_not_answer_is_asked_again_later(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action = send(api, alice)
    server.deliver(ALICE, answer(action))
    server.reachable = False
    look()
    assert "answered_at" not in told_of(api, action)
    assert not watch.find_due().exists()

    server.reachable = True
    look()

    assert "answered_at" in told_of(api, action)


def test_purge_removes_addresses_and_ends_the_watch(
    api: Api, alice: User, server: MemoryServer, settings: Any
) -> None:
    action = send(api, alice, to=PEOPLE)
    server.deliver(ALICE, answer(action))
    server.deliver(ALICE, report(action.message_id, PEOPLE[1], to=ALICE))
    look()
    settings.MAILHUB_RETENTION_DAYS = 0
    overdue.purge()
    look()

    shown = told_of(api, action)
    assert "answered_at" in shown
    assert "answered_by" not in shown
    assert "bounced" not in shown
    assert Watch.objects.get().ends_at is None


def test_follow_up_is_told_though_the_content_is_deleted(
    api: Api, alice: User, settings: Any
) -> None:
    action = send(api, alice, follow_up={"after_days": 10, "note": "Ask again."})
    settings.MAILHUB_RETENTION_DAYS = 0  # less than the ten days
    overdue.purge()
    pass_days(11)
    look()

    assert events("unanswered") == 1
    assert "follow_up_at" not in told_of(api, action)


def test_erased_address_does_not_come_back(api: Api, alice: User, server: MemoryServer) -> None:
    action = send(api, alice, follow_up={"after_days": 3})
    call_command("person", "erase", MIRA, yes=True, stdout=StringIO())
    server.deliver(ALICE, report(action.message_id, MIRA, to=ALICE))
    look()
    server.deliver(ALICE, answer(action), folder="archive")
    pass_days(3)
    look()

    shown = told_of(api, action)
    assert "answered_at" in shown
    assert MIRA not in str(shown)
    assert events("unanswered") == events("bounced") == 0


def test_what_came_before_a_late_ruling_is_told(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action = approve(api.propose(), alice)
    server.loses_answers = True
    work()
    action.refresh_from_db()
    server.deliver(ALICE, report(action.message_id, MIRA, to=ALICE))
    server.loses_answers = False
    send(api, alice, subject="Other")  # the mailbox is watched, and looked into
    look()
    assert (action.status, events("bounced")) == ("unknown", 0)

    resolve(action_id=action.pk, person=alice, ruling="sent", fence=action.fence)
    maintenance.settle()
    look()

    assert events("bounced") == 1


def test_mail_whose_copy_comes_late_is_watched_under_its_id(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action = send(api, alice, follow_up={"after_days": 3})
    (copy,) = server.folder(ALICE, "sent")
    server.folder(ALICE, "sent").clear()
    server.deliver(ALICE, answer(action).replace(action.message_id.encode(), SHOWN))
    server.deliver(ALICE, report(SHOWN.decode(), MIRA, to=ALICE))
    look()
    assert "answered_at" not in told_of(api, action)

    WatchedMailbox.objects.update(seen_until=timezone.now())
    for stored in server.folder(ALICE, "inbox"):
        stored.arrived -= timedelta(minutes=15)  # before what a look reads again
    ours = b"Message-ID: " + action.message_id.encode()
    theirs = b"X-Microsoft-Original-" + ours + b"\r\nMessage-ID: " + SHOWN
    server.deliver(ALICE, copy.source.replace(ours, theirs), folder="sent")
    pass_days(0.01)  # a quarter of an hour
    look()

    shown = told_of(api, action)
    assert shown["answered_by"] == MIRA
    assert [each["address"] for each in shown["bounced"]] == [MIRA]


def test_silence_of_a_part_is_not_told_as_silence(
    api: Api, alice: User, server: MemoryServer, reviewer: Reviewer
) -> None:
    action = send(api, alice, follow_up={"after_days": 3})
    for number in range(51):  # more than are read
        own = answer(action, ALICE, id=f"<{number}@lovelace.example>")
        server.deliver(ALICE, own, folder="sent")
    pass_days(3)
    look()

    assert "could not search the whole mailbox" in told_of(api, action)["next"]
    assert "had found no answer" in reviewer.page(str(action.pk)).content.decode()


def test_many_replies_of_strangers_hide_no_returned_mail(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action = send(api, alice, to=PEOPLE)
    for number in range(55):
        robot = f"robot{number}@spam.example"
        away = answer(action, robot, Auto_Submitted="auto-replied", id=f"<{number}@spam.example>")
        server.deliver(ALICE, away)
    server.deliver(ALICE, report(action.message_id, PEOPLE[1], to=ALICE))
    server.deliver(ALICE, answer(action, MIRA, Auto_Submitted="auto-replied"))
    look()

    shown = told_of(api, action)
    assert [each["address"] for each in shown["bounced"]] == [PEOPLE[1]]
    assert len(shown["auto_replies"]) == 51
    assert MIRA in str(shown["auto_replies"])


def test_conversation_that_cannot_be_read_holds_up_no_other(
    api: Api, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = send(api, alice, follow_up={"after_days": 3})
    second = send(api, alice, subject="Other", follow_up={"after_days": 3})
    usual = MemoryProvider.read_thread

    def refuse(self: MemoryProvider, *args: Any, answers_to: Any = (), **more: Any) -> Thread:
        if first.message_id in answers_to:
            raise Unavailable("too slow")
        return usual(self, *args, answers_to=answers_to, **more)

    monkeypatch.setattr(MemoryProvider, "read_thread", refuse)
    pass_days(3)
    look()
    assert "unanswered_at" in told_of(api, second)
    assert "unanswered_at" not in told_of(api, first)

    pass_days(0.5)
    for _ in range(6):
        look()
    assert "could not search the whole mailbox" in told_of(api, first)["next"]


def test_older_mail_of_the_conversation_is_no_answer(
    api: Api, alice: User, server: MemoryServer
) -> None:
    asked = EmailMessage()
    asked["From"], asked["To"], asked["Subject"] = MIRA, ALICE, "Hello"
    asked["Message-ID"] = "<asked@northwind.example>"
    asked.set_content("When?")
    server.deliver(ALICE, asked.as_bytes())
    action = send(api, alice, follow_up={"after_days": 3})
    server.folder(ALICE, "sent").clear()  # nothing shows what is older any more
    names = f"<asked@northwind.example> {action.message_id}"
    server.deliver(ALICE, answer(action, References=names, Auto_Submitted="auto-replied"))
    pass_days(3)
    look()

    shown = told_of(api, action)
    assert "answered_at" not in shown
    assert "could not search the whole mailbox" in shown["next"]
