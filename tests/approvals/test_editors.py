"""A reviewer who edits an action becomes an author: earlier approvals are void."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from accounts.infra.problems import Problem
from accounts.models import ApiToken, Mailbox, Membership, Role, User
from approvals.core.risk import Risk
from approvals.models import ApprovalPolicy, Decision, PendingAction
from tests.approvals.conftest import approve
from tests.approvals.revisions import ask_back, edit
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


def test_edit_voids_earlier_decisions(api: Api, mailbox: Mailbox, bob: User, charlie: User) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    dora = User.objects.create_user("dora@lovelace.example")
    for person in (charlie, dora):
        Membership.objects.create(mailbox=mailbox, user=person, role=Role.APPROVER)
    action_id = api.propose()
    approve(action_id, bob)
    edit(action_id, charlie, subject="Changed")

    assert PendingAction.objects.get().approvals_given == 0
    approve(action_id, dora)
    assert PendingAction.objects.get().status == "pending"
    approve(action_id, bob)
    assert PendingAction.objects.get().status == "approved"


def test_edit_keeps_the_news_told_before(api: Api, alice: User, bob: User) -> None:
    action_id = api.propose()
    ApiToken.objects.update(revoked_at=Now())
    with pytest.raises(Problem):
        approve(action_id, alice)
    ask_back(action_id, alice, "Say Friday, please.")

    for subject in ("Changed", "Changed again"):
        edit(action_id, bob, subject=subject)

    action = PendingAction.objects.get()
    told = [warning["code"] for warning in action.current.preview["warnings"]]
    assert (action.risk, told[-2:]) == (Risk.RISK, ["token_revoked", "changes_requested"])


def test_edit_of_the_bcc_keeps_the_duplicate_warning(
    api: Api, reviewer: Reviewer, settings: Any
) -> None:
    api.propose()
    second = api.propose()
    settings.DUPLICATE_WINDOW_SECONDS = 0  # nothing finds the other one again

    assert reviewer.decide(second, "edit", bcc="sam@northwind.example").status_code == 302

    assert "Possible duplicate" in reviewer.page(second).content.decode()


@pytest.mark.fault(10)
@pytest.mark.parametrize(("needed", "alone"), [(2, True), (1, False)])
def test_editor_is_an_author_and_cannot_approve_if_forbidden(
    api: Api, mailbox: Mailbox, bob: User, needed: int, alone: bool
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=needed, self_approval=alone)
    action_id = api.propose()
    edit(action_id, bob, subject="Changed")

    with pytest.raises(Problem) as refused:
        approve(action_id, bob)

    assert refused.value.code == "forbidden"
    assert not Decision.objects.exists()


@pytest.mark.fault(17)
def test_approval_by_a_later_editor_is_void(
    api: Api, mailbox: Mailbox, bob: User, server: MemoryServer
) -> None:
    """Tighten the policy between the approval and the claim."""
    action_id = api.propose()
    edit(action_id, bob, subject="Changed")
    approve(action_id, bob)
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)

    work()

    assert server.ledger == []
    assert PendingAction.objects.get().status != "succeeded"


def test_editor_can_approve_by_default(api: Api, bob: User, server: MemoryServer) -> None:
    action_id = api.propose()
    edit(action_id, bob, subject="Changed")

    approve(action_id, bob)
    work()

    assert len(server.ledger) == 1


@pytest.mark.fault(18)
def test_database_counts_no_approval_of_an_editor_in_a_quorum(
    api: Api, mailbox: Mailbox, bob: User, charlie: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.APPROVER)
    edit(api.propose(), bob, subject="Changed")
    action = approve(PendingAction.objects.get().pk, charlie)
    Decision.objects.create(
        action=action,
        person=bob,
        verdict="approved",
        revision=2,
        approval_round=2,
        digest=action.digest,
        created_at=timezone.now(),
    )

    with pytest.raises(IntegrityError, match="action_needs_decisions"), transaction.atomic():
        PendingAction.objects.update(status="approved", approvals_given=2)
