"""After a restore, pushes and lists tell a doubt too, and the operator learns what is lost."""

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import transaction
from django.test import Client

from accounts.models import Mailbox, Role, SignInLink, User
from approvals.gate import decide, overdue, reconcile
from approvals.gate.execute import execute
from approvals.models import NotificationChannel, PendingAction, Revision
from approvals.pages.mailboxes import members
from tests.approvals.kinds import Script, handed_over
from tests.approvals.test_restored import after_restore, home, lose
from tests.approvals.test_restoring import put_in_sent
from tests.approvals.webhook_listener import Listener, httpserver, listener, told
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tools.sending.kinds import SendMail

__all__ = ["home", "httpserver", "listener"]
Kind = NotificationChannel.Kind
pytestmark = pytest.mark.django_db(transaction=True)


def test_operator_learns_of_sends_that_the_copy_does_not_know(
    approved: Callable[..., PendingAction],
) -> None:
    lose(approved().pk)
    assert "this copy does not know" not in after_restore()
    lose(uuid4())
    lose(uuid4())

    assert "2 handed over that this copy does not know, the last at" in after_restore()


@pytest.mark.parametrize("found", [True, False])
def test_push_after_a_restore_knows_the_doubt(
    api: Api,
    reviewer: Reviewer,
    script: Script,
    server: MemoryServer,
    listener: Listener,
    found: bool,
) -> None:
    """Restore a copy in which it is unknown, although a later attempt may have sent it once more."""
    listener.added(api)
    action = PendingAction.objects.get(pk=api.propose())
    reviewer.decide(str(action.pk), "approve")
    script.instead, script.look = handed_over, SendMail().reconcile
    execute(action.pk, worker="test")
    if found:
        put_in_sent(server, action)
    lose(action.pk, 2)
    after_restore(reviewer)
    action.refresh_from_db()
    if not found:
        now = {"ruling": "not_sent", "fence": "1", "restored": decide.mark_of_restore(action)}
        reviewer.decide(str(action.pk), "resolve", **now)
        assert reconcile.record_destroyed(action.pk, 1)
        reviewer.decide(str(action.pk), "cancel")
    told()

    knows, pushed = api.get(f"/actions/{action.pk}").json(), listener.heard[-1]["data"]
    assert pushed["state"] == ("succeeded" if found else "cancelled")
    for name in ("may_have_been_sent_at", "next"):
        assert pushed[name] == knows[name]


def test_list_keeps_the_doubt_when_the_content_is_deleted(api: Api, reviewer: Reviewer) -> None:
    waiting = PendingAction.objects.get(pk=api.propose())
    after_restore(reviewer)
    reviewer.decide(str(waiting.pk), "reject")
    with transaction.atomic():
        overdue.purge_one(waiting.pk)

    assert "May have been sent" in reviewer.client.get("/?tab=rejected").content.decode()


def test_restore_adds_no_empty_content_to_what_no_key_opens(
    approved: Callable[..., PendingAction], api: Api
) -> None:
    action = PendingAction.objects.get(pk=api.propose())
    other = Revision.objects.get(action=approved()).sealed_payload
    Revision.objects.filter(action=action).update(sealed_payload=other)
    lose(action.pk, fence=1)

    after_restore()

    action.refresh_from_db()
    assert (action.revision, action.approval_round, action.restored_at is None) == (1, 2, False)


def test_page_from_before_a_restore_approves_nothing(api: Api, reviewer: Reviewer) -> None:
    """Its revision comes again, with the same content, and warns of the restore."""
    action = PendingAction.objects.get(pk=api.propose())
    lost = {"digest": action.digest, "revision": action.revision + 1, "restored": ""}
    after_restore(reviewer)
    action.refresh_from_db()
    assert (action.digest, action.revision) == (lost["digest"], lost["revision"])

    assert reviewer.decide(str(action.pk), "approve", **lost).status_code == 409
    assert 'name="restored"' in reviewer.page(str(action.pk)).content.decode()
    assert reviewer.decide(str(action.pk), "approve").status_code == 302


def test_restore_brings_back_no_way_in(api: Api, reviewer: Reviewer, bob: User) -> None:
    """They may have ended since the copy was made. So may tokens: the command says so."""
    mailbox, person = Mailbox.objects.get(), reviewer.user
    link = SignInLink.issue(user=bob, lifetime=timedelta(days=7))
    for kind in (Kind.WEB_PUSH, Kind.APPRISE):  # Bob has no token
        NotificationChannel.objects.create(user=bob, kind=kind, address="ntfy://of-a-thief")
    secret = members.invite(
        mailbox=mailbox, person=person, email="eve@else.example", role=Role.MANAGER
    )

    said = after_restore()

    assert reviewer.client.get("/tokens/").status_code == 302
    assert Client().get(f"/invitations/{secret}/").status_code == 410
    assert SignInLink.redeem(link) is None
    assert [each.kind for each in NotificationChannel.objects.filter(user=bob)] == [Kind.APPRISE]
    assert "The copy has again what people have taken away since" in said
    assert api.get("/mailboxes").status_code == 200
    call_command("after_restore", "--revoke-tokens", "--dry-run", stdout=StringIO())
    assert api.get("/mailboxes").status_code == 200
    call_command("after_restore", "--revoke-tokens", stdout=StringIO())  # mail may leave already
    assert api.get("/mailboxes").status_code == 401
    assert not NotificationChannel.objects.filter(user=bob).exists()
