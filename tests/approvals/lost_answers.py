"""A mail that was sent although the answer was lost."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from accounts.models import User
from approvals.core.types import ApprovedAction, Outcome
from approvals.gate import rulings
from approvals.gate.execute import execute
from approvals.models import PendingAction
from tests.approvals.kinds import LOST, Script
from tests.support.servers.memory import MemoryServer

ACCEPTED = Outcome(
    verdict="accepted",
    receipt={"at": "2026-05-04T12:00:00Z", "recipient_count": 1, "provider": "memory"},
)


def sent_and_not_heard(server: MemoryServer) -> Callable[[ApprovedAction], Outcome]:
    """Return a send that the provider accepts and whose answer is lost."""

    def instead(approved: ApprovedAction) -> Outcome:
        approved.wire_started()
        server.ledger.append(approved)  # type: ignore[arg-type]
        return LOST

    return instead


@pytest.fixture
def lost(
    approved: Callable[..., PendingAction], script: Script, server: MemoryServer
) -> PendingAction:
    """Return an action whose mail was sent and whose answer was lost."""
    action = approved()
    script.instead = sent_and_not_heard(server)
    execute(action.pk, worker="test")
    script.instead = None
    action.refresh_from_db()
    assert (action.status, action.fence, len(server.ledger)) == ("unknown", 1, 1)
    return action


def order_again(action: PendingAction, person: User) -> PendingAction:
    return rulings.resolve(
        action_id=action.pk, person=person, ruling="not_sent", fence=action.fence
    )


def text_of(page: Any) -> str:
    shown = re.sub(r"(?s)<(style|script|template).*?</\1>|<[^>]*>", " ", page.content.decode())
    return " ".join(shown.split())
