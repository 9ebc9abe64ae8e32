"""A page from before something happened cannot approve after it; a new look at the mail can."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from accounts.connect import connecting
from accounts.models import ApiToken, Mailbox, Membership, Role, User
from accounts.oauth import grants
from approvals import guards
from approvals.core.signatures import sign_decision
from approvals.gate import decide, rulings
from approvals.gate.rotation import SAID
from approvals.models import ApprovalPolicy, AuditEvent, Decision, PendingAction
from approvals.worker import maintenance
from tests.approvals.conftest import approve, script
from tests.approvals.guarded import refused
from tests.approvals.kinds import Script, handed_over
from tests.approvals.revisions import ask_back, edit
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

__all__ = ["script"]

pytestmark = pytest.mark.django_db(transaction=True)


def reconnect(mailbox: Mailbox, person: User, **access: str) -> None:
    connecting.connect_mailbox(
        owner=person,
        address=mailbox.address,
        provider="memory",
        secrets={**connecting.load_access(mailbox), **access},
        scopes=["read", "send"],
    )


def return_from_worker(action_id: str, alice: User) -> None:
    approve(action_id, alice)
    PendingAction.objects.update(approved_until=timezone.now() - timedelta(seconds=1))
    maintenance.sweep()


def undo(action_id: str, alice: User) -> None:
    action = approve(action_id, alice)
    PendingAction.objects.update(undo_until=timezone.now() + timedelta(minutes=1))
    decide.undo(action_id=action.pk, person=alice)


# An event while Bob has the page open, and the words with which the page then says it.
FACTS: dict[str, tuple[Callable[[str, User], object], str]] = {
    "revoked": (lambda _, alice: grants.revoke(ApiToken.objects.get()), "was revoked on"),
    "revoked without an event": (
        lambda _, alice: ApiToken.objects.update(revoked_at=Now()),
        "was revoked on",
    ),
    "narrowed": (
        lambda _, alice: grants.narrow(ApiToken.objects.get(), scopes=["mail:read"], mailboxes=[]),
        "Rights were taken away from the token",
    ),
    "asked back": (
        lambda action_id, alice: ask_back(action_id, alice, "Wrong price!"),
        "Alice requested changes",
    ),
    "undone": (undo, "Alice undid an approval"),
    "returned": (return_from_worker, "approved before, and came back"),
    "edited": (lambda action_id, alice: edit(action_id, alice, body="Other."), "Other."),
    "mailbox of another account": (
        lambda _, alice: reconnect(Mailbox.objects.get(), alice, username="other"),
        "connected to another account",
    ),
    "mailbox of another account without an event": (
        lambda _, alice: Mailbox.objects.update(generation=1),
        "connected to another account",
    ),
}


def post(reviewer: Reviewer, path: str, fields: dict[str, Any]) -> Any:
    token = reviewer.client.cookies["csrftoken"].value
    return reviewer.client.post(path, {**fields, "csrfmiddlewaretoken": token})


def post_approval(
    reviewer: Reviewer, action_id: str, digest: str, revision: int, **more: str
) -> Any:
    fields = {"digest": digest, "revision": revision, **more}
    return post(reviewer, f"/actions/{action_id}/approve/", fields)


DOORS: dict[str, Callable[[Reviewer, str, str, int], Any]] = {
    "page": post_approval,
    "beside the queue": partial(post_approval, then="queue", query=""),
    "line": partial(post_approval, then="line"),
    "bulk": lambda reviewer, action_id, digest, revision: post(
        reviewer, "/bulk/approve/", {"item": f"{action_id}:{digest}:{revision}"}
    ),
}


# A fact with an event and one without, at every door.
SHORT = {"edited", "revoked without an event"}
CELLS = [
    pytest.param(fact, door, marks=() if fact in SHORT or door == "page" else pytest.mark.long)
    for fact in FACTS
    for door in DOORS
]


@pytest.mark.parametrize(("fact", "door"), CELLS)
def test_page_from_before_a_fact_cannot_approve(
    api: Api, alice: User, bob: User, server: MemoryServer, fact: str, door: str
) -> None:
    action_id = api.propose()
    bobs = Reviewer.signed_in(bob)
    bobs.look(action_id)
    opened = PendingAction.objects.get()
    happens, words = FACTS[fact]
    happens(action_id, alice)

    answer = DOORS[door](bobs, action_id, opened.digest, opened.revision)

    work()
    assert answer.status_code in (200, 409)
    assert (PendingAction.objects.get().status, server.ledger) == ("pending", [])
    assert words in bobs.page(action_id).content.decode()
    bobs.look(action_id)
    now = PendingAction.objects.get()
    DOORS[door](bobs, action_id, now.digest, now.revision)
    if now.risk < 2 or door != "bulk":
        work()
        assert len(server.ledger) == 1


def test_news_is_told_at_once_on_page_and_in_the_list(
    api: Api, bob: User, server: MemoryServer
) -> None:
    ids = [api.propose(subject=name) for name in ("One", "Two")]
    grants.revoke(ApiToken.objects.get())

    bobs = Reviewer.signed_in(bob)
    assert bobs.client.get("/").content.decode().count("token revoked") == 2
    for each in ids:
        assert "was revoked on" in bobs.page(each).content.decode()
        assert PendingAction.objects.get(pk=each).revision == 2
    assert AuditEvent.objects.filter(event="noticed", data__code="token_revoked").count() == 2
    assert bobs.decide(ids[0], "approve").status_code == 302
    work()
    assert len(server.ledger) == 1


def test_token_that_lost_rights_before_the_proposal_is_no_news(api: Api, bob: User) -> None:
    token = ApiToken.objects.get()
    grants.narrow(token, scopes=["mail:propose", "mail:read"], mailboxes=token.mailboxes.all())
    action_id = api.propose()

    assert Reviewer.signed_in(bob).decide(action_id, "approve").status_code == 302
    assert PendingAction.objects.get().revision == 1


def reopen(bob: User) -> None:
    for is_active in (False, True):
        bob.is_active = is_active
        bob.save()


def move_mailbox(alice: User) -> None:
    connecting.disconnect(Mailbox.objects.get(), person=alice)
    reconnect(Mailbox.objects.get(), alice, server="elsewhere")


def rejoin(bob: User) -> None:
    Membership.objects.filter(user=bob).delete()
    Membership.objects.create(mailbox=Mailbox.objects.get(), user=bob, role=Role.APPROVER)


# Each is over when the mail is due: an approval counts only for what it rests on.
LOST: dict[str, tuple[Callable[[User, User], object], str]] = {
    "account closed and opened": (lambda alice, bob: reopen(bob), "approver_lost"),
    "account closed and opened by a query": (
        lambda alice, bob: [
            User.objects.filter(pk=bob.pk).update(is_active=each) for each in (False, True)
        ],
        "approver_lost",
    ),
    "member removed and added": (lambda alice, bob: rejoin(bob), "approver_lost"),
    "mailbox disconnected and connected": (
        lambda alice, bob: move_mailbox(alice),
        "mailbox_disconnected",
    ),
    "mailbox of another account": (
        lambda alice, bob: reconnect(Mailbox.objects.get(), alice, username="other"),
        "mailbox_disconnected",
    ),
    "token revoked by a clock that was set back": (
        lambda alice, bob: ApiToken.objects.update(revoked_at=timezone.now() - timedelta(hours=1)),
        "token_revoked",
    ),
    "recipient lists of an older version": (
        lambda alice, bob: ApprovalPolicy.objects.create(
            mailbox=Mailbox.objects.get(), version=PendingAction.objects.get().rules_version + 1
        ),
        "rules_changed",
    ),
}


@pytest.mark.parametrize("loss", LOST)
def test_approval_counts_only_for_what_it_rests_on(
    api: Api, alice: User, bob: User, server: MemoryServer, settings: Any, loss: str
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 3600
    action = approve(api.propose(), bob)
    happens, code = LOST[loss]
    happens(alice, bob)
    PendingAction.objects.filter(status="approved").update(not_before=Now())

    maintenance.sweep()
    work()

    action.refresh_from_db()
    assert (action.status, server.ledger) == ("pending", [])
    assert action.returned is not None
    assert action.returned["code"] == code


def test_same_account_connected_again_keeps_approvals(
    api: Api, alice: User, bob: User, mailbox: Mailbox, server: MemoryServer, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 3600
    approve(api.propose(), bob)
    Mailbox.objects.update(status="needs_reauth")
    reconnect(mailbox, alice, password="new")
    PendingAction.objects.update(not_before=Now())

    work()

    assert len(server.ledger) == 1


@pytest.mark.parametrize("loss", ["account closed and opened", "member removed and added"])
def test_lost_approval_is_no_part_of_a_quorum(
    api: Api, alice: User, bob: User, mailbox: Mailbox, server: MemoryServer, loss: str
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    carol = User.objects.create_user("carol@lovelace.example")
    Membership.objects.create(mailbox=mailbox, user=carol, role=Role.APPROVER)
    action_id = api.propose()
    approve(action_id, bob)
    LOST[loss][0](alice, bob)

    assert approve(action_id, carol).status == "pending"
    assert approve(action_id, bob).status == "approved"
    work()
    assert len(server.ledger) == 1


def test_ruling_about_other_news_is_no_approval(
    api: Api, alice: User, script: Script, server: MemoryServer
) -> None:
    """The page of the unknown mail did not say that the token was revoked."""
    action = approve(api.propose(), alice)
    script.instead = handed_over
    work()
    script.instead = None
    grants.revoke(ApiToken.objects.get())

    rulings.resolve(action_id=action.pk, person=alice, ruling="not_sent", fence=1)

    work()
    action.refresh_from_db()
    assert (action.status, server.ledger) == ("pending", [])
    assert {"may_have_been_sent", "token_revoked"} <= {
        each["code"] for each in action.current.preview["warnings"]
    }
    assert approve(action.pk, alice).status == "approved"


def test_approval_from_an_older_version_is_asked_again(api: Api, bob: User) -> None:
    """An older version stored no membership, and signed none."""
    action = approve(api.propose(), bob)
    decision = Decision.objects.get()
    decision.membership = None
    said = {name: getattr(decision, name) for name in SAID}
    seal = sign_decision(action=action.pk, person=bob.pk, **said)
    with guards.lift_guards(connection):
        Decision.objects.update(membership=None, seal=seal)

    maintenance.sweep()

    action.refresh_from_db()
    assert action.status == "pending"
    assert action.returned is not None
    assert action.returned["code"] == "approval_unproven"


@pytest.mark.both
def test_database_refuses_a_second_round_on_one_revision(api: Api, alice: User, bob: User) -> None:
    action_id = api.propose()
    approve(action_id, alice)
    PendingAction.objects.update(status="pending", approval_round=2, approvals_given=0)
    action = PendingAction.objects.get()

    assert (
        refused(
            lambda: Decision.objects.create(
                action=action,
                person=bob,
                verdict="approved",
                revision=action.revision,
                approval_round=2,
                digest=action.digest,
                created_at=timezone.now(),
            )
        )
        == "decision_of_a_new_revision"
    )
    # The first form tells it; the next page approves.
    bobs = Reviewer.signed_in(bob)
    assert bobs.decide(action_id, "approve").status_code == 409
    assert (
        "An earlier decision about this no longer counts" in bobs.page(action_id).content.decode()
    )
    assert bobs.decide(action_id, "approve").status_code == 302


@pytest.mark.both
def test_database_refuses_to_hide_news(api: Api) -> None:
    api.propose()

    assert (
        refused(lambda: PendingAction.objects.update(token_generation=1)) == "action_news_is_told"
    )
