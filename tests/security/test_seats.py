"""A person on leave and their deputy count once, and never for their own mail."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Mailbox, Role, User
from approvals import guards
from approvals.decisions.records import record_decision
from approvals.decisions.rights import EDITED_IT, OF_AUTHOR, PROPOSED_IT, refusal_to_approve
from approvals.lifecycle.queries import review_of
from approvals.models import (
    ApprovalPolicy,
    AuditEvent,
    Decision,
    Deputyship,
    PendingAction,
    Revision,
)
from approvals.rules.approvers import find_approvers
from approvals.rules.deputies import Right
from approvals.rules.quorum import number_that_counts
from tests.approvals.guarded import refused
from tests.conftest import Api, make_api
from tests.security.deputies import decide, member, name_deputy, state_of
from tests.support.people.browser import browser
from tests.support.work import work
from tools.providers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("first", ["person", "deputy"])
def test_person_and_deputy_are_one_of_two(
    by_pat: Api, alice: User, bob: User, dora: User, first: str
) -> None:
    action_id = by_pat.propose()
    name_deputy(bob, dora)
    one, other = (bob, dora) if first == "person" else (dora, bob)

    assert decide(one, action_id) == 302
    assert decide(other, action_id) == 403
    assert state_of(action_id) == "pending"

    assert decide(alice, action_id) == 302
    assert state_of(action_id) == "approved"


def test_deputy_with_an_own_right_uses_it(by_pat: Api, alice: User, bob: User) -> None:
    action_id = by_pat.propose()
    name_deputy(alice, bob)

    decide(bob, action_id)
    decide(alice, action_id)

    assert state_of(action_id) == "approved"
    assert not Decision.objects.exclude(deputy_of=None).exists()


def test_deputy_of_two_people_gives_one_approval(
    by_pat: Api, alice: User, bob: User, dora: User
) -> None:
    action_id = by_pat.propose()
    name_deputy(alice, dora)
    name_deputy(bob, dora)

    decide(dora, action_id)
    decide(dora, action_id)

    assert Decision.objects.count() == 1
    assert state_of(action_id) == "pending"


def test_deputy_of_two_people_uses_the_free_right(
    by_pat: Api, alice: User, bob: User, dora: User
) -> None:
    action_id = by_pat.propose()
    name_deputy(alice, dora)
    name_deputy(bob, dora)
    decide(alice, action_id)

    decide(dora, action_id)

    assert Decision.objects.get(person=dora).deputy_of == bob
    assert state_of(action_id) == "approved"


@pytest.mark.parametrize("role", ["proposer", "editor"])
def test_deputy_of_an_author_approves_nothing(
    mailbox: Mailbox, alice: User, bob: User, dora: User, role: str
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    action_id = make_api(bob if role == "proposer" else alice, mailbox).propose()
    if role == "editor":
        assert decide(bob, action_id, "edit", subject="Changed") == 302
    name_deputy(bob, dora)

    assert decide(dora, action_id) == 403

    action = PendingAction.objects.get()
    record_decision(
        action, Right(person=dora, deputy_of=bob), Decision.Verdict.APPROVED, method="x"
    )
    assert (
        refused(lambda: PendingAction.objects.update(status="approved", approvals_given=1))
        == "action_needs_decisions"
    )


def test_person_is_an_author_of_what_the_deputy_edited(
    mailbox: Mailbox, alice: User, bob: User, dora: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    action_id = make_api(alice, mailbox).propose()
    name_deputy(bob, dora)
    assert decide(dora, action_id, "edit", subject="Changed") == 302
    assert review_of(PendingAction.objects.get()) == {
        "by": str(dora),
        "deputy_of": str(bob),
        "verdict": "edited",
        "changed": ["subject"],
    }
    Deputyship.objects.update(ended_at=timezone.now())
    page = browser(bob).get(f"/actions/{action_id}/?view=history")
    assert f"{dora}, as deputy of {bob}" in unescape(page.content.decode())

    assert decide(bob, action_id) == 403

    action = PendingAction.objects.get()
    assert bob.pk not in find_approvers([action])[action.pk]
    record_decision(action, Right(person=bob), Decision.Verdict.APPROVED, method="x")
    assert PendingAction.objects.values_list(number_that_counts()).get() == (0,)
    assert (
        refused(lambda: PendingAction.objects.update(status="approved", approvals_given=1))
        == "action_needs_decisions"
    )
    assert refused(lambda: Revision.objects.update(deputy_of=None)) == "revision_final"


def test_author_is_told_why_they_may_not_approve(
    mailbox: Mailbox, alice: User, bob: User, dora: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    proposed = PendingAction.objects.get(pk=make_api(bob, mailbox).propose())
    edited = PendingAction.objects.get(pk=make_api(alice, mailbox).propose(subject="Other"))
    decide(bob, str(edited.pk), "edit", subject="Changed")

    def told(person: User, action: PendingAction) -> str:
        refusal = refusal_to_approve(person, action)
        return refusal.detail if refusal else ""

    assert told(bob, proposed) == PROPOSED_IT
    assert told(bob, edited) == EDITED_IT
    name_deputy(bob, dora)
    assert told(dora, edited) == OF_AUTHOR


def test_next_deputy_may_not_approve_either(
    mailbox: Mailbox, alice: User, bob: User, dora: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    action_id = make_api(alice, mailbox).propose()
    name_deputy(bob, dora)
    decide(dora, action_id, "edit", subject="Changed")
    browser(bob).post(f"/deputies/{Deputyship.objects.get().pk}/end/")
    name_deputy(bob, member(mailbox, "Emma", Role.VIEWER))

    assert decide(User.objects.get(first_name="Emma"), action_id) == 403


def test_command_for_staff_needs_two_of_staff(
    by_pat: Api, alice: User, bob: User, dora: User, settings: Any
) -> None:
    settings.MAILHUB_STAFF_KINDS = ("mail.send",)
    action_id = by_pat.propose()
    User.objects.filter(pk__in=[alice.pk, dora.pk]).update(is_staff=True)
    name_deputy(bob, dora)
    assert decide(dora, action_id) == 403

    User.objects.filter(pk=bob.pk).update(is_staff=True)
    assert decide(dora, action_id) == 302
    User.objects.filter(pk=bob.pk).update(is_staff=False)
    assert decide(alice, action_id) == 302

    assert state_of(action_id) == "pending"


def test_early_end_recounts_waiting_mail(by_pat: Api, bob: User, dora: User) -> None:
    action_id = by_pat.propose()
    name_deputy(bob, dora)
    decide(dora, action_id)
    assert PendingAction.objects.get().approvals_given == 1

    browser(bob).post(f"/deputies/{Deputyship.objects.get().pk}/end/")

    assert PendingAction.objects.get().approvals_given == 0
    assert AuditEvent.objects.filter(event="approval_lost").exists()


def test_database_refuses_forged_deputies(api: Api, bob: User, dora: User) -> None:
    action = PendingAction.objects.get(pk=api.propose())
    right = Right(person=dora, deputy_of=bob)
    approved = Decision.Verdict.APPROVED
    assert refused(lambda: record_decision(action, right, approved, method="")) == (
        "decision_of_a_deputy"
    )
    name_deputy(bob, dora)
    later = timezone.now() + timedelta(days=9)
    assert refused(lambda: Deputyship.objects.update(ends_at=later)) == "deputyship_only_ends"
    assert refused(lambda: Deputyship.objects.all().delete()) == "deputyship_never_deleted"
    record_decision(action, right, approved, method="")
    assert refused(lambda: Decision.objects.update(deputy_of=None)) == "decision_final"
    Deputyship.objects.update(ended_at=timezone.now())
    assert refused(lambda: Deputyship.objects.update(ended_at=None)) == "deputyship_only_ends"
    assert (
        refused(lambda: PendingAction.objects.update(status="approved", approvals_given=1))
        == "action_needs_decisions"
    )


def test_database_counts_one_seat_once(by_pat: Api, bob: User, dora: User) -> None:
    action = PendingAction.objects.get(pk=by_pat.propose())
    name_deputy(bob, dora)
    for right in (Right(person=dora, deputy_of=bob), Right(person=bob)):
        record_decision(action, right, Decision.Verdict.APPROVED, method="")

    assert (
        refused(lambda: PendingAction.objects.update(status="approved", approvals_given=2))
        == "action_needs_decisions"
    )


def test_claim_counts_one_seat_once(by_pat: Api, bob: User, dora: User) -> None:
    action = PendingAction.objects.get(pk=by_pat.propose())
    name_deputy(bob, dora)
    for right in (Right(person=dora, deputy_of=bob), Right(person=bob)):
        record_decision(action, right, Decision.Verdict.APPROVED, method="")

    assert PendingAction.objects.values_list(number_that_counts()).get() == (1,)


def test_signature_covers_the_person_on_leave(
    api: Api, alice: User, bob: User, dora: User, server: MemoryServer
) -> None:
    name_deputy(alice, dora)
    name_deputy(bob, dora)
    action_id = api.propose()
    decide(dora, action_id)
    other = bob if Decision.objects.get().deputy_of == alice else alice
    with guards.lift_guards(connection):
        Decision.objects.update(deputy_of=other)

    work()

    assert (state_of(action_id), len(server.ledger)) == ("pending", 0)
