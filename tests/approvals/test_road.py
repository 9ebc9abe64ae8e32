"""The road: an agent proposes, a person approves, the mail leaves once."""

from typing import Any

import pytest

from approvals import maintenance
from approvals.execution import execute
from approvals.models import PendingAction
from tests.conftest import Api, Reviewer
from tools.providers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)


def work() -> None:
    """What a worker does in one round."""
    for action_id in maintenance.due():
        execute(action_id, worker="test")
    maintenance.settle()


def test_an_approved_mail_leaves_once_and_the_answer_says_so(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    work()
    assert server.ledger == []

    assert reviewer.decide(action_id, "approve").status_code == 302
    work()
    work()

    assert [envelope.recipients for envelope in server.ledger] == [("mira@northwind.example",)]
    action: dict[str, Any] = api.get(f"/actions/{action_id}").json()
    assert action["state"] == "succeeded"
    assert action["receipt"]["recipient_count"] == 1
    assert len(server.folder("alice@lovelace.example", "sent")) == 1
    assert PendingAction.objects.get().attempts.count() == 1
