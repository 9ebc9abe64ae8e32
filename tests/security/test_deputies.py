"""A deputy decides with at most the rights of the person on leave, in the period, and no longer."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.models import Mailbox, Membership, Role, User
from approvals import guards
from approvals.discussion import assignments, comments
from approvals.mailboxes import deputies
from approvals.models import ApprovalPolicy, AuditEvent, Decision, Deputyship, PendingAction
from approvals.models.audit import PEOPLE
from approvals.rules.deputies import find_lent
from approvals.worker import maintenance
from tests.approvals.conftest import approved, script
from tests.approvals.kinds import Script, handed_over
from tests.conftest import Api, make_api, make_mailbox
from tests.security.deputies import decide, member, name_deputy, state_of
from tests.support.people.browser import browser
from tests.support.work import work
from tools.providers.memory import MemoryServer

__all__ = ["approved", "script"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_deputy_approves_and_both_are_named(
    api: Api, alice: User, dora: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    action_id = api.propose()
    assert decide(dora, action_id) == 403
    assert name_deputy(alice, dora).status_code == 302

    assert decide(dora, action_id) == 302

    work()
    assert len(server.ledger) == 1
    history = browser(alice).get(f"/actions/{action_id}/?view=history").content.decode()
    assert "Dora, as deputy of Alice" in history
    assert api.get(f"/actions/{action_id}").json()["review"] == {
        "by": "Dora",
        "deputy_of": "Alice",
        "verdict": "approved",
    }
    approved = AuditEvent.objects.get(event="approved")
    assert (approved.actor, approved.data["deputy_of"]) == (f"user:{dora.pk}", alice.pk)
    named = AuditEvent.objects.filter(event="deputy_named")
    assert {event.chain_id for event in named} == {mailbox.pk, PEOPLE}


@pytest.mark.parametrize("verdict", ["reject", "undo", "ask_back", "cancel"])
def test_deputy_may_also_stop_a_mail(
    api: Api, alice: User, dora: User, settings: Any, verdict: str
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 600
    action_id = api.propose()
    name_deputy(alice, dora)
    if verdict == "undo":
        decide(alice, action_id)

    assert decide(dora, action_id, verdict, note="Not like this.") == 302

    events = {"reject": "rejected", "undo": "undone", "ask_back": "changes_requested"}
    event = AuditEvent.objects.get(event=events.get(verdict, "cancelled"))
    assert event.data["deputy_of"] == alice.pk
    for decision in Decision.objects.exclude(verdict="approved"):
        assert decision.deputy_of == alice


@pytest.mark.parametrize(
    ("ruling", "events"),
    [("sent", ["outcome_accepted"]), ("not_sent", ["outcome_not_sent", "approved"])],
)
def test_ruling_of_a_deputy_names_both(
    script: Script,
    approved: Callable[..., PendingAction],
    alice: User,
    dora: User,
    ruling: str,
    events: list[str],
) -> None:
    script.instead = handed_over
    action_id = str(approved().pk)
    work()
    assert state_of(action_id) == "unknown"
    name_deputy(alice, dora)

    assert decide(dora, action_id, "resolve", ruling=ruling, fence=1) == 302

    found = AuditEvent.objects.filter(event__in=events, actor=f"user:{dora.pk}")
    assert [event.data["deputy_of"] for event in found] == [alice.pk] * len(events)


@pytest.mark.parametrize("when", ["planned", "over", "ended"])
def test_deputy_decides_only_in_the_period(api: Api, alice: User, dora: User, when: str) -> None:
    action_id = api.propose()
    name_deputy(alice, dora, starts=2 if when == "planned" else 0)
    row = Deputyship.objects.get()
    if when == "over":
        with guards.lift_guards(connection):
            Deputyship.objects.update(
                starts_at=row.starts_at - timedelta(days=9), ends_at=timezone.now()
            )
    elif when == "ended":
        assert browser(alice).post(f"/deputies/{row.pk}/end/").status_code == 302

    assert decide(dora, action_id) == 403
    assert find_lent() == []


def lose(reason: str, person: User, deputy: User, mailbox: Mailbox) -> None:
    of_person = Membership.objects.filter(user=person)
    match reason:
        case "ended early":
            browser(deputy).post(f"/deputies/{Deputyship.objects.get().pk}/end/")
        case "person removed":
            manager = mailbox.memberships.get(role="manager").user
            browser(manager).post(f"/mailboxes/{mailbox.pk}/members/{person.pk}/remove/")
        case "person may only look":
            of_person.update(role="viewer")
        case "person came back":
            of_person.update(created_at=timezone.now() + timedelta(seconds=1))
        case "person deactivated":
            User.objects.filter(pk=person.pk).update(is_active=False)
        case "deputy deactivated":
            User.objects.filter(pk=deputy.pk).update(is_active=False)
        case "deputy removed":
            Membership.objects.filter(user=deputy).delete()
        case "deputy came back":
            Membership.objects.filter(user=deputy).update(
                created_at=timezone.now() + timedelta(seconds=1)
            )


@pytest.mark.parametrize(
    "reason",
    [
        "ended early",
        "person removed",
        "person may only look",
        "person came back",
        "person deactivated",
        "deputy deactivated",
        "deputy removed",
        "deputy came back",
    ],
)
def test_approval_of_a_deputy_is_void_without_the_right(
    api: Api, bob: User, dora: User, mailbox: Mailbox, server: MemoryServer, reason: str
) -> None:
    action_id = api.propose()
    name_deputy(bob, dora)
    assert decide(dora, action_id) == 302

    lose(reason, bob, dora, mailbox)
    work()
    maintenance.sweep()

    assert state_of(action_id) == "pending"
    assert len(server.ledger) == 0
    assert PendingAction.objects.get(returned__code="approver_lost")


def test_usual_end_takes_back_no_approval(
    api: Api, bob: User, dora: User, server: MemoryServer
) -> None:
    name_deputy(bob, dora)
    decide(dora, api.propose())
    given = Decision.objects.get().created_at
    with guards.lift_guards(connection):
        Deputyship.objects.update(ends_at=given + timedelta(milliseconds=1))

    work()

    assert len(server.ledger) == 1


def test_deputy_of_a_deputy_has_no_right(api: Api, bob: User, dora: User, mailbox: Mailbox) -> None:
    eve = member(mailbox, "Eve", Role.VIEWER)
    Membership.objects.filter(user=dora).update(role="viewer")
    name_deputy(bob, dora)
    Deputyship.objects.create(
        person=dora, deputy=eve, starts_at=timezone.now(), ends_at=timezone.now() + timedelta(1)
    )

    action_id = api.propose()
    assert decide(eve, action_id) == 403
    assert decide(eve, action_id, "reject") == 403
    assert name_deputy(dora, eve).status_code == 409


def test_right_of_one_mailbox_decides_in_no_other(
    alice: User, bob: User, dora: User, server: MemoryServer
) -> None:
    other = make_mailbox("other@lovelace.example", server, alice)
    Membership.objects.create(mailbox=other, user=dora, role=Role.VIEWER)
    name_deputy(bob, dora)
    action_id = make_api(alice, other).propose()

    assert decide(dora, action_id) == 403
    assert decide(dora, action_id, "reject") == 403
    assert state_of(action_id) == "pending"


def test_deputy_sees_only_what_the_person_may_open(
    api: Api, alice: User, bob: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    """Only a manager opens a mailbox to somebody who is no member of it."""
    own = make_mailbox("bob@lovelace.example", server, bob)
    in_own, in_shared = make_api(bob, own).propose(), api.propose()
    dora = member(own, "Dora", Role.VIEWER)
    name_deputy(bob, dora)
    Membership.objects.filter(user=dora).delete()
    window = browser(dora)

    assert window.get(f"/actions/{in_own}/").status_code == 200
    assert window.get(f"/actions/{in_shared}/").status_code == 404
    assert b"alice@lovelace.example" not in window.get("/").content
    assert window.get(f"/mailboxes/{own.pk}/rules/").status_code == 404
    assert [each.mailbox_id for each in find_lent()] == [own.pk]


def test_deputy_needs_the_role_that_the_rules_ask_for(
    api: Api, alice: User, bob: User, dora: User, mailbox: Mailbox
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approver_role="manager")
    action_id = api.propose()
    name_deputy(bob, dora)
    assert decide(dora, action_id) == 403

    name_deputy(alice, dora)
    assert decide(dora, action_id) == 302


def test_deputy_comments_and_is_assigned(api: Api, alice: User, dora: User) -> None:
    action = PendingAction.objects.get(pk=api.propose())
    assert dora not in assignments.find_assignable(action)
    name_deputy(alice, dora)

    comments.add_comment(action=action, person=dora, text="I look at it.")
    Membership.objects.filter(user=dora).delete()
    comments.add_comment(action=action, person=alice, text="Thank you, @Dora.")
    assert AuditEvent.objects.filter(event="commented").latest("pk").data["mentioned"] == [dora.pk]
    answer = browser(alice).post(f"/actions/{action.pk}/assign/", {"person": dora.pk})
    assert answer.status_code == 302
    assignments.assign(action=action, person=dora, to=dora)

    assert assignments.find_assigned(action) == dora
    browser(alice).post(f"/deputies/{Deputyship.objects.get().pk}/end/")
    assert assignments.find_assigned(action) is None


def test_naming_is_refused_in_words(alice: User, bob: User, dora: User, charlie: User) -> None:
    assert name_deputy(bob, charlie).status_code == 422
    assert name_deputy(bob, dora, starts=-1).status_code == 422
    assert name_deputy(bob, dora, days=-1).status_code == 422
    assert name_deputy(bob, dora, days=400).status_code == 422
    assert name_deputy(dora, bob).status_code == 409
    assert name_deputy(bob, dora).status_code == 302
    assert name_deputy(bob, alice, starts=1).status_code == 409
    assert Deputyship.objects.count() == 1


def test_only_the_two_people_can_end_it(alice: User, bob: User, dora: User) -> None:
    name_deputy(bob, dora)
    row = Deputyship.objects.get()
    assert browser(alice).post(f"/deputies/{row.pk}/end/").status_code == 404
    assert browser(dora).post(f"/deputies/{row.pk}/end/").status_code == 302
    assert browser(dora).post(f"/deputies/{row.pk}/end/").status_code == 404

    assert AuditEvent.objects.filter(event="deputy_ended").count() == 2


def test_only_a_colleague_becomes_a_deputy(bob: User, charlie: User) -> None:
    """The form offers nobody else; the service refuses them too."""
    now = timezone.now()
    with pytest.raises(Problem) as refusal:
        deputies.name_deputy(
            person=bob, deputy=charlie, starts_at=now, ends_at=now + timedelta(days=1)
        )

    assert refusal.value.code == "forbidden"
