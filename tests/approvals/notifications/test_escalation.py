"""If nobody decides in time, the next approvers are notified, once, and the history says so."""

from datetime import timedelta

import pytest

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import ApprovalPolicy, AuditEvent
from tests.approvals.conftest import approve
from tests.approvals.notifications.conftest import Post, prove, stages
from tests.approvals.revisions import edit
from tests.conftest import Api, make_api
from tests.security.people import member
from tests.support.people.browser import browser, set_rules

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def dora(mailbox: Mailbox) -> User:
    person = User.objects.create_user("dora@lovelace.example", first_name="Dora")
    Membership.objects.create(mailbox=mailbox, user=person, role=Role.VIEWER)
    return person


def test_managers_follow_after_minutes_and_once(
    post: Post, api: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    prove(alice, bob)
    set_rules(alice, mailbox, notify_content="subject", escalation_minutes=30)
    action_id = api.propose()
    post.sweep()
    post.sweep(after=timedelta(minutes=28))
    assert (stages(bob), stages(alice)) == (["waiting"], [])

    for minutes in (31, 32, 61):
        post.sweep(after=timedelta(minutes=minutes))

    assert (stages(bob), stages(alice)) == (["waiting"], ["escalated"])
    assert len(post.to(alice)) == 1
    history = browser(bob).get(f"/actions/{action_id}/?view=history").content.decode()
    assert "No decision for 31" in history
    assert "Alice was notified" in history
    page = browser(bob).get(f"/mailboxes/{mailbox.pk}/").content.decode()
    assert "Managers are notified after 30 minutes" in page


@pytest.mark.parametrize("how", ["approved", "edited", "left"])
def test_managers_follow_if_nobody_else_may_approve_any_more(
    post: Post, api: Api, alice: User, bob: User, mailbox: Mailbox, how: str
) -> None:
    prove(alice, bob)
    needed = 2 if how == "approved" else 1
    proposer = member(mailbox, "Pat", Role.PROPOSER)
    ApprovalPolicy.objects.create(
        mailbox=mailbox, escalation_minutes=30, approvals_needed=needed, self_approval=False
    )
    action_id = make_api(proposer, mailbox).propose()
    post.sweep()
    if how == "left":
        browser(bob).post(f"/mailboxes/{mailbox.pk}/members/{bob.pk}/remove/")
    elif how == "edited":
        edit(action_id, bob, subject="Better")
    else:
        approve(action_id, bob)
    post.sweep()

    post.sweep(after=timedelta(minutes=31))

    assert (stages(bob), stages(alice)) == (["waiting"], ["escalated"])


def test_decided_mail_is_not_escalated(
    post: Post, api: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    prove(alice, bob)
    ApprovalPolicy.objects.create(mailbox=mailbox, escalation_minutes=30)
    action_id = api.propose()
    post.sweep()
    approve(action_id, bob)

    post.sweep(after=timedelta(minutes=31))

    assert stages(alice) == []
    assert not AuditEvent.objects.filter(event="escalated").exists()


def test_managers_follow_at_half_time(
    post: Post, api: Api, alice: User, bob: User, mailbox: Mailbox
) -> None:
    prove(alice, bob)
    ApprovalPolicy.objects.create(mailbox=mailbox, escalation_minutes=0, action_hours=4)
    api.propose()
    post.sweep()

    post.sweep(after=timedelta(minutes=119))
    assert stages(alice) == []
    post.sweep(after=timedelta(minutes=121))

    assert (stages(bob), stages(alice)) == (["waiting", "half_time"], ["escalated"])


def test_managers_are_first_if_nobody_else_may_approve(
    post: Post, api: Api, alice: User, mailbox: Mailbox
) -> None:
    prove(alice)
    ApprovalPolicy.objects.create(mailbox=mailbox, escalation_minutes=30)
    api.propose()
    post.sweep()
    post.sweep(after=timedelta(minutes=31))

    assert stages(alice) == ["waiting"]
