"""The rules about approvers change while a mail is open: nothing is lost, and nothing is stuck."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals.core.types import ApprovedAction, Outcome, Proof
from approvals.gate import lookup
from approvals.gate.execute import execute
from approvals.models import PendingAction
from approvals.worker import maintenance
from tests.approvals.kinds import NOT_NOW, Script, handed_over
from tests.approvals.lost_answers import ACCEPTED
from tests.approvals.test_restored import after_restore, home
from tests.conftest import Api, Reviewer
from tests.support.people.browser import set_rules
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

__all__ = ["home"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
UNSENT = Outcome(
    verdict="not_sent", proof=Proof(kind="destroyed", object="1"), code="draft_destroyed"
)


@pytest.fixture
def others_approve(alice: User, mailbox: Mailbox) -> Callable[[], None]:
    """Return a call after which the approval of Alice, whose program proposed, no longer counts."""
    return lambda: set_rules(alice, mailbox, self_approval=False)


def test_unsent_mail_comes_back_to_a_person_by_stricter_rules(
    approved: Callable[..., PendingAction],
    script: Script,
    server: MemoryServer,
    others_approve: Callable[[], None],
) -> None:
    action, other = approved(), approved(subject="Other")

    def later(approved: ApprovedAction) -> Outcome:
        others_approve()
        return NOT_NOW

    script.instead = later
    execute(action.pk, worker="test")
    action.refresh_from_db()
    assert action.status == "approved"
    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    maintenance.sweep()

    for each in (action, other):
        each.refresh_from_db()
        assert (each.status, (each.returned or {}).get("code")) == ("pending", "approver_lost")
    assert server.ledger == []


def test_proof_that_comes_after_stricter_rules_is_kept(
    approved: Callable[..., PendingAction], script: Script, others_approve: Callable[[], None]
) -> None:
    action = approved()
    script.instead = handed_over
    execute(action.pk, worker="test")
    others_approve()
    script.look = lambda _: UNSENT
    PendingAction.objects.update(next_probe_at=timezone.now())

    lookup.look_up(action.pk)

    attempt = action.attempts.get()
    assert (attempt.verdict, attempt.proof) == ("not_sent", "destroyed")


def test_mail_in_sent_is_closed_whatever_the_rules_are_by_then(
    approved: Callable[..., PendingAction],
    script: Script,
    home: None,
    others_approve: Callable[[], None],
) -> None:
    """Restore a copy in which an approval, that new rules had made void, still waited for its time."""
    action = approved(send_at=(timezone.now() + timedelta(days=2)).isoformat())
    others_approve()
    script.look = lambda _: ACCEPTED

    after_restore()

    action.refresh_from_db()
    assert (action.status, action.unreconciled) == ("succeeded", False)


def test_mail_that_has_enough_approvals_by_new_rules_can_leave(
    api: Api, alice: User, bob: User, mailbox: Mailbox, server: MemoryServer
) -> None:
    action_id, person = api.propose(), Reviewer.signed_in(bob)
    set_rules(alice, mailbox, approvals_needed=2)
    person.decide(action_id, "approve")
    set_rules(alice, mailbox, approvals_needed=1)
    assert 'data-action="approve"' in person.page(action_id).content.decode()
    assert person.decide(action_id, "approve").status_code == 409  # it says that it begins again
    person.decide(action_id, "approve")
    work()

    assert len(server.ledger) == 1
