"""An author of a mail does not approve it, where the rules ask for another person."""

import pytest

from accounts.models import Mailbox, User
from approvals.decisions.records import record_decision
from approvals.decisions.rights import EDITED_IT, PROPOSED_IT, refusal_to_approve
from approvals.models import ApprovalPolicy, Decision, PendingAction
from approvals.rules.approvers import find_approvers
from approvals.rules.policy import policy_of
from approvals.rules.quorum import number_that_counts
from tests.approvals.guarded import refused
from tests.conftest import make_api
from tests.security.people import decide

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.mark.parametrize("role", ["proposer", "editor"])
def test_author_approves_nothing(mailbox: Mailbox, alice: User, bob: User, role: str) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    action_id = make_api(bob if role == "proposer" else alice, mailbox).propose()
    if role == "editor":
        assert decide(bob, action_id, "edit", subject="Changed") == 302

    assert decide(bob, action_id) == 403

    action = PendingAction.objects.get()
    assert bob.pk not in find_approvers([action])[action.pk]
    record_decision(action, bob, Decision.Verdict.APPROVED, method="x")
    assert PendingAction.objects.values_list(number_that_counts()).get() == (0,)
    assert (
        refused(lambda: PendingAction.objects.update(status="approved", approvals_given=1))
        == "action_needs_decisions"
    )


def test_author_is_told_why_they_may_not_approve(mailbox: Mailbox, alice: User, bob: User) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    proposed = PendingAction.objects.get(pk=make_api(bob, mailbox).propose())
    edited = PendingAction.objects.get(pk=make_api(alice, mailbox).propose(subject="Other"))
    decide(bob, str(edited.pk), "edit", subject="Changed")

    def told(person: User, action: PendingAction) -> str:
        refusal = refusal_to_approve(person, action, policy_of(mailbox))
        return refusal.detail if refusal else ""

    assert told(bob, proposed) == PROPOSED_IT
    assert told(bob, edited) == EDITED_IT
