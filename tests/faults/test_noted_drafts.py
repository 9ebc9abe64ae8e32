"""A mail made from a draft whose first attempt is proven to have sent nothing: the note about that
attempt is not in the way of the next one.
"""

import os
import signal
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from accounts.models import User
from approvals.gate import overdue, send_back
from approvals.gate.execute import execute
from approvals.models import Attempt, PendingAction, Preparation
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.faults.graph_road import now_it_is_time, probe
from tests.faults.test_late_orders import order_again
from tests.support.people.gmail import gmail, mailbox
from tests.support.people.outlook import state
from tests.support.servers.gmail import GmailServer
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work

__all__ = ["gmail", "mailbox"]
pytestmark = pytest.mark.django_db(transaction=True)


def proposal_of(api: Api, draft: str) -> Any:
    return api.tool("send_draft", draft_id=draft, confirm=True).json()


@pytest.fixture
def draft(api: Api) -> str:
    made = api.tool("create_draft", to=[MIRA], subject="Hello", body="On Thursday.")
    return str(made.json()["id"])


@pytest.fixture
def action(api: Api, reviewer: Reviewer, draft: str) -> PendingAction:
    action_id = proposal_of(api, draft)["action"]["id"]
    assert reviewer.decide(action_id, "approve").status_code == 302
    return PendingAction.objects.get(pk=action_id)


def test_draft_leaves_after_a_lookup_proved_it_unsent(
    action: PendingAction, gmail: GmailServer
) -> None:
    gmail.drop("drafts.send")
    work()
    for _ in range(2):
        probe()
    assert state(action) == ("approved", "draft_destroyed")

    now_it_is_time()
    work()

    assert (state(action), len(gmail.ledger)) == (("succeeded", None), 1)


def test_draft_leaves_after_it_was_ordered_again(
    action: PendingAction, alice: User, gmail: GmailServer
) -> None:
    gmail.drop("drafts.send")
    work()
    order_again(action, alice)

    work()

    assert (state(action), len(gmail.ledger)) == (("succeeded", None), 1)


def test_draft_leaves_after_a_worker_was_killed(action: PendingAction, gmail: GmailServer) -> None:
    """Kill it while it prepares the mail."""
    worker: list[int] = []

    def kill(call: Any) -> None:
        del gmail.before["drafts.create"]
        os.kill(worker[0], signal.SIGKILL)

    gmail.before["drafts.create"] = kill
    connections.close_all()
    if connection.vendor == "postgresql":  # a forked process would share the sockets of the pool
        connection.close_pool()  # type: ignore[attr-defined]
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.read(told, 1)
            execute(action.pk, worker="killed")
        finally:
            os._exit(1)
    worker.append(pid)
    os.write(tell, b"!")
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    assert Attempt.objects.get().phase == "prepared"
    PendingAction.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    overdue.end_dead_leases()
    assert state(action) == ("approved", "worker_lost")

    now_it_is_time()
    work()

    assert (state(action), len(gmail.ledger)) == (("succeeded", None), 1)


@pytest.mark.parametrize("proven", [True, False])
def test_next_proposal_of_a_draft_is_warned_if_unproven(
    api: Api, action: PendingAction, draft: str, gmail: GmailServer, *, proven: bool
) -> None:
    gmail.drop("drafts.send")
    work()
    for _ in range(2 if proven else 0):
        probe()
    if proven:
        assert api.post(f"/actions/{action.pk}/cancel").json()["state"] == "cancelled"

    warnings = proposal_of(api, draft)["warnings"]

    assert ("draft_was_sent" in {each["code"] for each in warnings}) is not proven


def test_draft_leaves_not_again_if_its_prepared_one_is_gone(
    api: Api, action: PendingAction, draft: str, gmail: GmailServer, reviewer: Reviewer
) -> None:
    second = PendingAction.objects.get(pk=proposal_of(api, draft)["action"]["id"])
    assert reviewer.decide(str(second.pk), "approve").status_code == 302
    gmail.fail("drafts.send", 429)
    assert execute(action.pk, worker="test")
    prepared = Preparation.objects.get().notes["draft"]
    gmail._send(gmail.box(ADA), prepared)  # by its owner
    now_it_is_time()
    mine = PendingAction.objects.filter(pk=action.pk)
    mine.update(approved_until=timezone.now() - timedelta(seconds=1))
    send_back.send_back()
    maintenance.tidy()
    assert state(action)[0] == "pending"

    work()
    assert (state(second)[0], len(gmail.ledger)) == ("pending", 1), "a person learns of the doubt"

    assert reviewer.decide(str(second.pk), "approve").status_code == 302
    work()

    assert (state(second), len(gmail.ledger)) == (("failed", "draft_was_sent"), 1)
