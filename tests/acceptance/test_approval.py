"""A person decides about exactly the content on the page; nobody and nothing else decides."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from accounts.models import Mailbox, Membership, Role, User
from approvals.core.signatures import digest_of
from approvals.gate import decide
from approvals.models import ApprovalPolicy, AuditEvent, Decision, PendingAction, Revision
from tests.conftest import Api, Reviewer
from tests.support.concurrently import all_at_once
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


def edited(action_id: str) -> PendingAction:
    """Return the action after somebody changed its subject: revision 2."""
    action = PendingAction.objects.get(pk=action_id)
    payload = {**action.current.payload, "subject": "Changed meanwhile"}
    Revision.objects.create(
        action=action,
        number=2,
        author=action.proposer,
        payload=payload,
        digest=digest_of(payload),
        preview=action.current.preview,
        created_at=timezone.now(),
    )
    PendingAction.objects.filter(pk=action_id).update(revision=2, digest=digest_of(payload))
    action.refresh_from_db()
    return action


@pytest.mark.fault(8)
def test_form_of_an_earlier_revision_is_refused(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    shown = PendingAction.objects.get()
    edited(action_id)

    answer = reviewer.decide(action_id, "approve", digest=shown.digest, revision=1)
    work()

    assert answer.status_code == 409
    assert "Changed meanwhile" in answer.content.decode()
    assert not Decision.objects.exists()
    assert server.ledger == []


@pytest.mark.fault(9)
def test_altered_digest_is_refused_and_audited(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    digest = PendingAction.objects.get().digest
    altered = ("0" if digest[0] != "0" else "1") + digest[1:]

    answer = reviewer.decide(action_id, "approve", digest=altered)
    work()

    assert answer.status_code == 409
    assert AuditEvent.objects.filter(event="approval_refused", action_id=action_id).count() == 1
    assert not Decision.objects.exists()
    assert server.ledger == []


@pytest.mark.parametrize(
    "fields", [{"digest": ""}, {"digest": "x" * 64}, {"revision": "one"}, {"digest": "A" * 64}]
)
def test_form_without_readable_digest_is_refused(
    api: Api, reviewer: Reviewer, fields: dict[str, str]
) -> None:
    action_id = api.propose()

    assert reviewer.decide(action_id, "approve", **fields).status_code == 409
    assert PendingAction.objects.get().status == "pending"


@pytest.mark.fault(10)
def test_member_who_only_proposes_cannot_approve(api: Api, mailbox: Mailbox, charlie: User) -> None:
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.PROPOSER)
    action_id = api.propose()

    answer = Reviewer.signed_in(charlie).decide(action_id, "approve")

    assert answer.status_code == 403
    assert PendingAction.objects.get().status == "pending"
    assert AuditEvent.objects.filter(event="approval_refused").count() == 1


@pytest.mark.fault(10)
def test_proposer_cannot_approve_if_forbidden(
    api: Api, mailbox: Mailbox, reviewer: Reviewer, bob: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    action_id = api.propose()

    assert reviewer.decide(action_id, "approve").status_code == 403
    assert PendingAction.objects.get().status == "pending"
    assert Reviewer.signed_in(bob).decide(action_id, "approve").status_code == 302


@pytest.mark.fault(10)
def test_token_cannot_approve(api: Api, server: MemoryServer) -> None:
    action_id = api.propose()
    action = PendingAction.objects.get()
    for client in (Client(), Client(enforce_csrf_checks=True)):
        answer = client.post(
            f"/actions/{action_id}/approve/",
            {"digest": action.digest, "revision": 1},
            headers={"Authorization": f"Bearer {api.secret}", "X-API-Key": api.secret},
        )
        assert answer.status_code in (302, 403)
    work()
    action.refresh_from_db()
    assert action.status == "pending"
    assert server.ledger == []


@pytest.mark.fault(11)
def test_eight_approvals_at_once_by_one_person_count_once(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action_id = api.propose()
    action = PendingAction.objects.get()

    def approve() -> PendingAction:
        return decide.approve(
            action_id=UUID(action_id), person=alice, digest=action.digest, revision=1
        )

    all_at_once([approve] * 8)
    work()

    assert Decision.objects.count() == 1
    assert AuditEvent.objects.filter(event="approved").count() == 1
    assert len(server.ledger) == 1


@pytest.mark.fault(12)
def test_two_approvals_need_two_people(
    api: Api, mailbox: Mailbox, charlie: User, bob: User, server: MemoryServer
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.APPROVER)
    action_id = api.propose()
    first, second = Reviewer.signed_in(bob), Reviewer.signed_in(charlie)

    first.decide(action_id, "approve")
    first.decide(action_id, "approve")
    work()
    assert PendingAction.objects.get().status == "pending"
    assert server.ledger == []

    second.decide(action_id, "approve")
    work()
    assert len(server.ledger) == 1


@pytest.mark.fault(13)
def test_only_one_of_approve_reject_and_cancel_wins(
    api: Api, alice: User, bob: User, server: MemoryServer
) -> None:
    withdrawer = Caller(user=alice, surface="web")
    for _ in range(5):
        action_id = api.propose()
        action = PendingAction.objects.get(pk=action_id)
        before = len(server.ledger)

        refusals = all_at_once(
            [
                partial(
                    _refusal,
                    decide.approve,
                    action_id=action.pk,
                    person=alice,
                    digest=action.digest,
                    revision=1,
                ),
                partial(_refusal, decide.reject, action_id=action.pk, person=bob),
                partial(_refusal, decide.cancel, action_id=action.pk, caller=withdrawer),
            ]
        )
        assert set(refusals) <= {"", "conflict"}
        work()

        action.refresh_from_db()
        # A cancelled action may have been approved first: withdrawing what has not left is allowed.
        assert action.status in ("succeeded", "rejected", "cancelled")
        assert len(server.ledger) - before == (1 if action.status == "succeeded" else 0)
        if action.status == "rejected":
            assert not Decision.objects.filter(action=action, verdict="approved").exists()


def _refusal(call: Callable[..., object], **arguments: object) -> str:
    """Return the code of the problem that the call ended with, or an empty string."""
    try:
        call(**arguments)
    except Problem as problem:
        return problem.code
    return ""


@pytest.mark.fault(16)
def test_form_of_one_action_approves_no_other(api: Api, reviewer: Reviewer) -> None:
    first, second = api.propose(), api.propose(subject="Another")
    digest = PendingAction.objects.get(pk=first).digest

    assert reviewer.decide(second, "approve", digest=digest).status_code == 409
    assert PendingAction.objects.get(pk=second).status == "pending"


@pytest.mark.fault(16)
def test_old_form_approves_nothing_after_a_rejection(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose()
    reviewer.decide(action_id, "reject")

    assert reviewer.decide(action_id, "approve").status_code == 409
    assert PendingAction.objects.get().status == "rejected"


def test_expired_proposal_cannot_be_approved(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose()
    PendingAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert reviewer.decide(action_id, "approve").status_code == 409
