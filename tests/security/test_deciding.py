"""The person, the object and the time of a decision: each guard by itself."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from accounts.models import ApiToken, Mailbox, Membership, Role, User
from approvals import guards
from approvals.core.types import ApprovedAction, PreviewWarning
from approvals.gate import decide, revise
from approvals.gate.decide import record_decision
from approvals.models import ApprovalPolicy, Decision, PendingAction
from tests.approvals.conftest import approve, script
from tests.approvals.kinds import Script
from tests.approvals.revisions import edit
from tests.conftest import Api, Reviewer, make_api
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

__all__ = ["script"]
pytestmark = pytest.mark.django_db(transaction=True)
MOVED = PreviewWarning(code="thread_moved", text="Mira has written since.", severity="risk")
SECOND = timedelta(seconds=1)


def token_of(person: User, name: str) -> Caller:
    token = ApiToken.objects.get(user=person, name=name)
    return Caller(user=person, surface="rest", token=token, scopes=frozenset(token.scopes))


def test_undo_is_refused_after_its_time(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose(send_at=(timezone.now() + timedelta(hours=1)).isoformat())
    reviewer.decide(action_id, "approve")
    assert reviewer.decide(action_id, "undo").status_code == 409
    assert PendingAction.objects.get().status == "approved"


def test_past_send_time_leaves_time_for_undo(
    api: Api, reviewer: Reviewer, server: MemoryServer, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    action_id = api.propose(send_at=(timezone.now() + timedelta(hours=1)).isoformat())
    with guards.lift_guards(connection):
        PendingAction.objects.update(send_at=timezone.now() - timedelta(hours=1))
    reviewer.decide(action_id, "approve")
    work()
    assert server.ledger == []
    assert reviewer.decide(action_id, "undo").status_code == 302


def test_other_token_of_the_proposer_cancels_nothing(
    api: Api, alice: User, mailbox: Mailbox
) -> None:
    action_id = api.propose()
    make_api(alice, mailbox, name="another")
    with pytest.raises(Problem) as refused:
        decide.cancel(action_id=PendingAction.objects.get().pk, caller=token_of(alice, "another"))
    assert refused.value.code == "not_found"
    assert api.get(f"/actions/{action_id}").json()["state"] == "pending"


def test_token_of_an_approver_cancels_nothing(api: Api, bob: User, mailbox: Mailbox) -> None:
    api.propose()
    make_api(bob, mailbox, name="bobs")
    with pytest.raises(Problem) as refused:
        decide.cancel(action_id=PendingAction.objects.get().pk, caller=token_of(bob, "bobs"))
    assert refused.value.code == "not_found"
    assert PendingAction.objects.get().status == "pending"


def test_second_approval_by_one_person_changes_nothing(
    api: Api, mailbox: Mailbox, bob: User, charlie: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.APPROVER)
    action_id = api.propose()
    approve(action_id, bob)
    approve(action_id, bob)
    action = PendingAction.objects.get()
    assert (action.status, action.approvals_given, action.approval_round) == ("pending", 1, 1)
    assert Decision.objects.count() == 1
    assert approve(action_id, charlie).status == "approved"


def test_approval_of_an_inactive_person_does_not_count(
    api: Api, mailbox: Mailbox, bob: User, charlie: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.APPROVER)
    action_id = api.propose()
    approve(action_id, bob)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert approve(action_id, charlie).status == "pending"


def test_only_an_approver_sees_the_recheck_result(
    api: Api, script: Script, mailbox: Mailbox, charlie: User
) -> None:
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.PROPOSER)
    action_id = api.propose()
    script.seen = lambda approved: (MOVED,)
    with pytest.raises(Problem) as refused:
        approve(action_id, charlie)
    assert refused.value.code == "forbidden"
    assert PendingAction.objects.get().revision == 1


def test_finding_about_an_earlier_revision_is_not_shown(
    api: Api, script: Script, alice: User, bob: User
) -> None:
    action_id = api.propose()
    shown = PendingAction.objects.get()

    def edited_meanwhile(approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        revise.edit(
            action_id=approved.id,
            person=bob,
            digest=shown.digest,
            revision=1,
            changes={"subject": "Another"},
        )
        return (MOVED,)

    script.seen = edited_meanwhile
    with pytest.raises(Problem) as refused:
        approve(action_id, alice)
    assert refused.value.code == "conflict"
    action = PendingAction.objects.get()
    assert (action.status, action.revision) == ("pending", 2)
    assert action.current.preview["warnings"] == shown.current.preview["warnings"]


def test_approval_names_digest_and_revision(api: Api, alice: User) -> None:
    api.propose()
    action = PendingAction.objects.get()
    for digest, revision in ((action.digest, 2), ("0" * 64, 1)):
        with pytest.raises(Problem):
            decide.approve(action_id=action.pk, person=alice, digest=digest, revision=revision)
    assert not Decision.objects.exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.PROPOSER])
def test_only_approvers_decide(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, charlie: User, role: Role, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    Membership.objects.create(mailbox=mailbox, user=charlie, role=role)
    stranger, action_id = Reviewer.signed_in(charlie), api.propose()
    for verdict in ("approve", "reject"):
        stranger.decide(action_id, verdict)
        assert PendingAction.objects.get().status == "pending"
    reviewer.decide(action_id, "approve")
    stranger.decide(action_id, "undo")
    assert PendingAction.objects.get().status == "approved"


def test_four_eyes_rule_refuses_the_proposer(
    api: Api, reviewer: Reviewer, mailbox: Mailbox
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    action_id = api.propose()
    refused = reviewer.decide(action_id, "approve")
    assert b"You proposed this, so you cannot approve it" in refused.content
    assert not Decision.objects.exists()


@pytest.mark.parametrize("verdict", ["approve", "reject", "cancel", "undo", "resolve"])
def test_decisions_accept_only_post(api: Api, reviewer: Reviewer, verdict: str) -> None:
    assert reviewer.client.get(f"/actions/{api.propose()}/{verdict}/").status_code == 405


@pytest.fixture
def two_needed(mailbox: Mailbox, charlie: User) -> User:
    """Make the mailbox require two approvals, and Charlie another approver."""
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.APPROVER)
    return charlie


def test_approval_of_a_person_who_left_the_staff_is_void(
    api: Api, bob: User, two_needed: User, settings: Any
) -> None:
    settings.MAILHUB_STAFF_KINDS = ["mail.send"]
    User.objects.update(is_staff=True)
    action_id = api.propose()
    approve(action_id, User.objects.get(pk=bob.pk))
    User.objects.filter(pk=bob.pk).update(is_staff=False)

    approve(action_id, User.objects.get(pk=two_needed.pk))

    after = PendingAction.objects.get()
    assert (after.status, after.approvals_given) == ("pending", 1)


def test_stored_approval_of_an_author_does_not_count(api: Api, bob: User, two_needed: User) -> None:
    """Ignore it although an older version may have stored it."""
    action = edit(api.propose(), bob, subject="Changed")
    record_decision(action, bob, Decision.Verdict.APPROVED, method="password")

    approve(action.pk, two_needed)

    after = PendingAction.objects.get()
    assert (after.status, after.approvals_given) == ("pending", 1)


def test_edit_of_an_outdated_page_is_refused(api: Api, alice: User, bob: User) -> None:
    action_id = api.propose()
    shown = PendingAction.objects.get()
    edit(action_id, bob, subject="Changed")

    with pytest.raises(Problem) as refused:
        revise.edit(
            action_id=shown.pk,
            person=alice,
            digest=shown.digest,
            revision=shown.revision,
            changes={"subject": "Mine"},
        )

    assert refused.value.code == "conflict"
    assert PendingAction.objects.get().revision == 2


def test_address_that_the_rules_refuse_cannot_be_edited_in(
    api: Api, mailbox: Mailbox, alice: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, refused=["evil.example"])
    action_id = api.propose()

    with pytest.raises(Problem) as refused:
        edit(action_id, alice, to="mira@evil.example")

    assert refused.value.code == "policy_blocked"
    assert PendingAction.objects.get().revision == 1
