"""An author of a mail does not approve it, where the rules ask for another person."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Mailbox, Role, User
from approvals import guards
from approvals.gate.decide import record_decision
from approvals.gate.rules.approvers import find_approvers
from approvals.gate.rules.conditions import number_that_counts
from approvals.gate.rules.policy import PROPOSED_IT, WROTE_IT, policy_of, refusal_to_approve
from approvals.models import ApprovalPolicy, Author, Decision, PendingAction, Revision
from tests.approvals.guarded import refused
from tests.conftest import make_api
from tests.security.people import decide, member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


NOTE: dict[str, Any] = {"to": ["mira@northwind.example"], "subject": "Offer", "body": "Our offer."}


def refuse_everywhere(person: User, action_id: str) -> None:
    """Check that each place that judges an approval refuses this person's."""
    assert decide(person, action_id) == 403
    action = PendingAction.objects.get(pk=action_id)
    assert person.pk not in find_approvers([action])[action.pk]
    record_decision(action, person, Decision.Verdict.APPROVED, method="x")
    waiting = PendingAction.objects.filter(pk=action_id)
    assert waiting.values_list(number_that_counts()).get() == (0,)
    assert (
        refused(lambda: waiting.update(status="approved", approvals_given=1))
        == "action_needs_decisions"
    )


@pytest.mark.parametrize("role", ["proposer", "editor", "drafter"])
def test_author_approves_nothing(mailbox: Mailbox, alice: User, bob: User, role: str) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    theirs, other = make_api(bob, mailbox), make_api(alice, mailbox)
    if role == "drafter":
        draft = theirs.tool("create_draft", **NOTE).json()
        sent = other.tool("send_draft", draft_id=draft["id"], confirm=True).json()
        action_id = sent["action"]["id"]
    else:
        action_id = (theirs if role == "proposer" else other).propose()
    if role == "editor":
        assert decide(bob, action_id, "edit", subject="Changed") == 302

    refuse_everywhere(bob, action_id)


def test_author_is_told_why_they_may_not_approve(mailbox: Mailbox, alice: User, bob: User) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    proposed = PendingAction.objects.get(pk=make_api(bob, mailbox).propose())
    edited = PendingAction.objects.get(pk=make_api(alice, mailbox).propose(subject="Other"))
    decide(bob, str(edited.pk), "edit", subject="Changed")

    def told(person: User, action: PendingAction) -> str:
        refusal = refusal_to_approve(person, action, policy_of(mailbox))
        return refusal.detail if refusal else ""

    assert told(bob, proposed) == PROPOSED_IT
    assert told(bob, edited) == WROTE_IT


def lineage_of(alice: User, mailbox: Mailbox) -> Callable[..., str]:
    api = make_api(alice, mailbox)
    return lambda **changes: str(api.propose(**changes))


@pytest.mark.parametrize("steps", [["edit", "ask_back"], ["ask_back"], ["edit", "by another"]])
def test_words_of_a_reviewer_stay_theirs_in_a_replacement(
    mailbox: Mailbox, alice: User, bob: User, steps: list[str]
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    carol = member(mailbox, "Carol", Role.APPROVER)
    propose = lineage_of(alice, mailbox)
    first = propose(body="We offer 10 EUR.")
    words = "We offer 10,000 EUR to a cousin."
    for step in steps:
        person, verdict = (carol, "ask_back") if step == "by another" else (bob, step)
        note = {"note": f"Write: {words}"} if verdict == "ask_back" else {"body": words}
        assert decide(person, first, verdict, **note) == 302

    second = propose(body=words, replaces=first)
    third = propose(body=f"{words} Yours", replaces=second)

    refuse_everywhere(bob, third)
    authors = Author.objects.filter(action__id=third).values_list("person", flat=True)
    assert set(authors) == {alice.pk, bob.pk} | ({carol.pk} if "by another" in steps else set())
    dora = member(mailbox, "Dora", Role.APPROVER)
    assert decide(dora, third) == 302


def test_database_keeps_the_authors_of_a_lineage(mailbox: Mailbox, alice: User, bob: User) -> None:
    propose = lineage_of(alice, mailbox)
    first = propose()
    decide(bob, first, "ask_back", note="Other words, please.")
    second = PendingAction.objects.get(pk=propose(replaces=first))
    assert refused(lambda: Author.objects.filter(person=bob).delete()) == "author_never_deleted"
    assert refused(lambda: Author.objects.update(person=alice)) == "author_never_changed"

    new = {
        "action": second,
        "number": 2,
        "author": alice,
        "payload": {},
        "preview": {},
        "digest": "1" * 64,
        "created_at": timezone.now(),
    }
    with guards.lift_guards(connection):
        Author.objects.filter(action=second, person=bob).delete()
    assert refused(lambda: Revision.objects.create(**new)) == "revision_of_authors"
    Author.objects.create(action=second, person=bob)
    charlie = User.objects.create_user("carl@lovelace.example")
    by_charlie = {**new, "author": charlie}
    assert refused(lambda: Revision.objects.create(**by_charlie)) == "revision_of_authors"
    Revision.objects.create(**new)
