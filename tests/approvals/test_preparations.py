"""Objects that a kind prepares at the provider before the send: reused, looked up, and removed when
nothing is sent.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from django.db.models.functions import Now

from accounts.models import User
from approvals.core.types import ApprovedAction, LeaseLost, Outcome, PreviewWarning
from approvals.gate.execute import execute
from approvals.models import PendingAction, Preparation
from approvals.worker import maintenance
from tests.approvals.conftest import approve
from tests.approvals.kinds import LOST, NOT_NOW, Script
from tests.support.servers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Desk:
    """A provider's drafts, as a kind that prepares one uses them."""

    drafts: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)

    def prepare(self, approved: ApprovedAction) -> str:
        if "draft" not in approved.prepared:
            self.drafts.append(f"draft {len(self.drafts) + 1}")
            approved.keep({"draft": self.drafts[-1]})
        self.used.append(approved.prepared.get("draft", self.drafts[-1]))
        return self.used[-1]


@pytest.fixture
def desk(script: Script) -> Desk:
    desk = Desk()

    def not_now(approved: ApprovedAction) -> Outcome:
        desk.prepare(approved)
        return NOT_NOW

    script.instead = not_now
    return desk


def run(action: PendingAction) -> PendingAction:
    PendingAction.objects.filter(pk=action.pk, status="approved").update(not_before=Now())
    execute(action.pk, worker="test")
    action.refresh_from_db()
    return action


def send_back(action: PendingAction, script: Script) -> None:
    script.seen = lambda approved: (
        PreviewWarning(code="thread_moved", text="There is a newer mail."),
    )
    assert run(action).status == "pending"
    script.seen = lambda approved: ()


def test_next_attempt_uses_the_prepared_draft(
    approved: Callable[..., PendingAction], desk: Desk
) -> None:
    action = run(run(approved()))
    assert action.status == "approved"
    assert desk.used == ["draft 1", "draft 1"]


def test_prepared_draft_is_removed_if_unsent(
    approved: Callable[..., PendingAction], desk: Desk, script: Script, server: MemoryServer
) -> None:
    action = run(approved())
    maintenance.sweep()
    assert server.discarded == []
    send_back(action, script)
    maintenance.sweep()
    maintenance.sweep()
    assert server.discarded == ["draft 1"]
    assert not Preparation.objects.exists()


def test_prepared_draft_is_kept_if_sent(
    approved: Callable[..., PendingAction], desk: Desk, script: Script, server: MemoryServer
) -> None:
    action = run(approved())
    script.instead = None
    assert run(action).status == "succeeded"
    maintenance.sweep()
    assert server.discarded == []
    assert not Preparation.objects.exists()


def test_failed_removal_of_a_draft_is_retried(
    approved: Callable[..., PendingAction], desk: Desk, script: Script, server: MemoryServer
) -> None:
    action = run(approved())
    send_back(action, script)
    server.reachable = False
    maintenance.sweep()
    server.reachable = True
    Preparation.objects.update(tidy_at=action.created_at)
    maintenance.sweep()
    assert server.discarded == ["draft 1"]


def test_draft_being_removed_is_not_used_by_a_worker(
    approved: Callable[..., PendingAction],
    desk: Desk,
    script: Script,
    server: MemoryServer,
    alice: User,
) -> None:
    action = run(approved())
    send_back(action, script)
    server.reachable = False
    maintenance.sweep()
    server.reachable = True
    run(approve(action.pk, alice))
    assert server.discarded == ["draft 1"]
    assert desk.used == ["draft 1", "draft 2"]
    assert Preparation.objects.get().notes == {"draft": "draft 2"}


def test_nothing_is_kept_after_a_lost_lease(
    approved: Callable[..., PendingAction], script: Script
) -> None:
    def loses_it(approved: ApprovedAction) -> Outcome:
        PendingAction.objects.update(fence=7)
        with pytest.raises(LeaseLost):
            approved.keep({"draft": "of nobody"})
        return NOT_NOW

    script.instead = loses_it
    run(approved())
    assert script.called == ["execute"]
    assert not Preparation.objects.exists()


@pytest.mark.fault(23)
def test_draft_seen_unsent_twice_proves_no_send(
    approved: Callable[..., PendingAction], desk: Desk, script: Script, server: MemoryServer
) -> None:
    def lost(approved: ApprovedAction) -> Outcome:
        approved.wire_started({"draft": desk.prepare(approved)})
        return LOST

    script.instead = lost
    script.look = lambda approved: super(Script, script).reconcile(approved)
    server.unsent.add("draft 1")
    action = run(approved())
    assert action.status == "unknown"
    for state in ("unknown", "approved"):
        PendingAction.objects.filter(pk=action.pk).update(next_probe_at=action.created_at)
        maintenance.sweep()
        action.refresh_from_db()
        assert action.status == state
