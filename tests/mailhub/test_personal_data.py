"""`person export` and `person erase`: words and addresses go, proofs stay, and it says which."""

import json
import threading
from io import StringIO
from uuid import UUID

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from accounts.infra.texts import translatable
from accounts.models import ApiToken, Mailbox, Membership, Role, User
from accounts.people.sessions import stored_key
from approvals.audit import proof
from approvals.models import AuditEvent, Blob, Comment, Decision, PendingAction
from approvals.pages.discussion import add_comment
from approvals.worker import maintenance
from mailhub.agent.models import Thread, ToolCall
from tests.approvals.conftest import approve
from tests.approvals.test_watches import answer, look, send
from tests.conftest import Api, Reviewer, make_api
from tests.support.concurrently import until_a_lock_is_waited_for
from tests.support.people.browser import browser
from tests.support.servers.memory import MemoryProvider, MemoryServer
from tests.support.work import work
from tools.providers.base import Receipt
from tools.providers.errors import Refused

pytestmark = pytest.mark.django_db(transaction=True)
MIRA = "mira@northwind.example"
PASSWORD = "a long and quiet word"


def person(what: str, address: str) -> str:
    out = StringIO()
    call_command("person", what, address, yes=True, stdout=out)
    return out.getvalue()


def test_correspondent_is_exported_and_erased(api: Api, reviewer: Reviewer, alice: User) -> None:
    sent = api.propose(to=["Mira@Northwind.example"], subject="Offer 4471", body="Dear Mira.")
    copied = api.propose(to=[MIRA], subject="Not yet in Sent")
    for each in (sent, copied):
        reviewer.decide(each, "approve")
    work()
    PendingAction.objects.filter(pk=copied).update(settle_at=timezone.now())
    waiting = api.propose(to=[MIRA], subject="Offer 4472")
    other = api.propose(to=["other-mira@northwind.example"], subject="Offer 4473")

    told = json.loads(person("export", MIRA))
    subjects = [mail["subject"] for mail in told["mails_to_it"]]
    assert subjects == ["Offer 4471", "Not yet in Sent", "Offer 4472"]
    assert "Dear Mira." in told["mails_to_it"][0]["text"]
    assert told["written_to_by"] == ["alice@lovelace.example"]

    said = person("erase", MIRA)
    assert "content of 1 mails" in said
    assert "2 mails to it have not ended" in said
    assert not Blob.objects.filter(action=UUID(sent)).exists()
    assert PendingAction.objects.get(pk=sent).current.payload == {}
    assert Decision.objects.filter(action=UUID(sent)).exists()
    assert AuditEvent.objects.filter(action_id=sent, event="content_erased").exists()
    assert "The content was removed" in browser(alice).get(f"/actions/{sent}/").content.decode()
    for kept in (copied, waiting, other):
        assert PendingAction.objects.get(pk=kept).current.payload

    told = json.loads(person("export", MIRA))
    assert [mail["subject"] for mail in told["mails_to_it"]] == subjects[1:]
    assert told["written_to_by"] == []
    assert proof.verify() == []


def test_mail_that_an_edit_took_from_an_address_is_exported_without_words(
    api: Api, alice: User
) -> None:
    action = PendingAction.objects.get(pk=api.propose(to=[MIRA], subject="Offer 4471"))
    edit = {"to": "otto@northwind.example", "subject": "Your salary", "body": "Dear Otto."}
    shown = {"digest": action.current.digest, "revision": action.revision}
    assert browser(alice).post(f"/actions/{action.pk}/edit/", shown | edit).status_code == 302

    (told,) = json.loads(person("export", MIRA))["mails_to_it"]
    assert (told["action"], told["subject"], told["text"]) == (str(action.pk), "", "")
    (told,) = json.loads(person("export", "otto@northwind.example"))["mails_to_it"]
    assert "Dear Otto." in told["text"]


def test_address_in_other_letters_is_exported_and_erased(api: Api) -> None:
    sent = api.propose(to=["Kim@Bücher.example"], subject="Offer 4471")
    api.post(f"/actions/{sent}/cancel")
    (told,) = json.loads(person("export", "kim@bücher.example"))["mails_to_it"]
    assert told["subject"] == "Offer 4471"
    assert "content of 1 mails" in person("erase", "kim@bücher.example")


def test_address_that_only_answered_is_exported_and_erased(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action = send(api, alice, to=["desk@northwind.example"])
    server.deliver(alice.email, answer(action, MIRA))
    away = answer(action, MIRA, id="<away@northwind.example>", Auto_Submitted="auto-replied")
    server.deliver(alice.email, away)
    other = answer(action, f"jo{MIRA}", id="<jo@northwind.example>", Auto_Submitted="auto-replied")
    server.deliver(alice.email, other)
    kim = "kim@northwind.example"
    server.deliver(alice.email, answer(action, kim, id="<kim@x>", Auto_Submitted="auto-replied"))
    look()
    assert "reports of 1 mails" in person("erase", kim)
    assert api.get(f"/actions/{action.pk}").json()["answered_by"] == MIRA

    (told,) = json.loads(person("export", MIRA))["answers_and_reports"]
    assert told["action"] == str(action.pk)
    assert told["answered_at"]
    assert MIRA in told["reports"]
    assert f"jo{MIRA}" not in told["reports"]
    assert "reports of 1 mails" in person("erase", MIRA)
    shown = api.get(f"/actions/{action.pk}").json()
    assert "answered_at" in shown
    assert [each["address"] for each in shown["auto_replies"]] == [f"jo{MIRA}"]
    assert "answered_by" not in shown


def test_words_of_the_server_go_with_the_content(
    api: Api, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Receipt:
        words = translatable("The server refused %(addresses)s.", addresses=MIRA)
        raise Refused("invalid_recipient", words)

    monkeypatch.setattr(MemoryProvider, "send", refuse)
    action = approve(api.propose(to=[MIRA]), alice)
    work()
    assert MIRA in api.get(f"/actions/{action.pk}").json()["error"]["detail"]

    person("erase", MIRA)

    shown = api.get(f"/actions/{action.pk}").json()
    assert shown["error"]["code"] == "invalid_recipient"
    assert MIRA not in str(shown)
    assert browser(alice).get(f"/actions/{action.pk}/").status_code == 200


@pytest.mark.postgres_only
def test_erasure_waits_for_another_transaction(api: Api, reviewer: Reviewer) -> None:
    sent = api.propose(to=[MIRA])
    reviewer.decide(sent, "approve")
    work()
    said: list[str] = []

    def erase() -> None:
        try:
            said.append(person("erase", MIRA))
        finally:
            connection.close()

    thread = threading.Thread(target=erase)
    with transaction.atomic():
        PendingAction.objects.select_for_update(no_key=True).get(pk=sent)
        thread.start()
        until_a_lock_is_waited_for()
    thread.join()

    assert "content of 1 mails" in said[0]
    assert not Blob.objects.filter(action=UUID(sent)).exists()


def test_approver_is_erased_and_the_proofs_stay(
    api: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    sent, leaving = api.propose(subject="Sent"), api.propose(subject="Leaving")
    for about, words in ((sent, "Fine words"), (leaving, "Later words")):
        add_comment(action=PendingAction.objects.get(pk=about), person=bob, text=words)
    bob.set_password(PASSWORD)
    bob.save()
    window = Client()
    window.post("/sign-in/", {"login": bob.email, "password": PASSWORD})
    session = Session.objects.filter(pk=stored_key(window.cookies["sessionid"].value))
    assert session.exists()
    thread = Thread.objects.create(user=bob, name="t")
    ToolCall.objects.create(user=bob, mailbox=mailbox, tool="list_emails", duration_ms=1)
    approve(sent, bob)
    work()
    approve(leaving, bob)
    bobs = make_api(bob, mailbox)
    LogEntry.objects.log_actions(alice.pk, [bob], CHANGE, change_message="")

    told = json.loads(person("export", bob.email))
    assert told["account"]["mailboxes"] == [{"address": mailbox.address, "role": "approver"}]
    assert [each["verdict"] for each in told["account"]["decisions"]] == ["approved", "approved"]
    assert told["account"]["comments"][0]["text"] == "Fine words"

    said = person("erase", bob.email)
    assert f"erased-{bob.pk}@erased.invalid" in said
    assert "stay as proofs" in said
    assert "1 comments on mail that has not ended stay." in said
    assert json.loads(person("export", "bob@lovelace.example"))["account"] is None
    bob.refresh_from_db()
    assert (bob.get_full_name(), bob.is_active, bob.has_usable_password()) == ("", False, False)
    assert Comment.objects.get().text == "Later words"
    for rows in (session, Thread.objects.filter(pk=thread.pk), ToolCall.objects.all()):
        assert not rows.exists()
    assert AuditEvent.objects.filter(event="person_erased").exists()
    assert not LogEntry.objects.exists()
    assert not ApiToken.objects.filter(user=bob, revoked_at=None).exists()
    assert bobs.tool("list_emails").status_code == 401
    maintenance.sweep()
    assert PendingAction.objects.get(pk=leaving).status == "pending"  # the approval is void
    assert Decision.objects.filter(person=bob).count() == 2
    assert proof.verify() == []


def test_only_manager_is_not_erased(api: Api, alice: User, bob: User) -> None:
    with pytest.raises(CommandError, match=r"Nothing was changed\. alice@lovelace\.example"):
        person("erase", alice.email)
    alice.refresh_from_db()
    assert alice.is_active
    assert Membership.objects.filter(user=alice).exists()
    Membership.objects.filter(user=bob).update(role=Role.MANAGER)
    person("erase", alice.email)
    assert not Membership.objects.filter(user=alice).exists()
