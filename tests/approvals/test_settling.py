"""The work after a send is done by one process at a time, also if it takes long."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from approvals.core.types import ApprovedAction
from approvals.gate import settle
from approvals.gate.execute import execute
from approvals.models import PendingAction
from tests.approvals.conftest import approve
from tests.approvals.kinds import Script
from tests.conftest import Api
from tests.support.servers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)
ADDRESS = "alice@lovelace.example"


@pytest.fixture
def sent(api: Api, alice: User, script: Script) -> PendingAction:
    action = approve(api.propose(), alice)
    execute(action.pk, worker="test")
    return action


def test_copy_that_takes_long_is_saved_by_one_process(sent: PendingAction, script: Script) -> None:
    called = []

    def slow(approved: ApprovedAction) -> None:
        called.append(approved.id)
        over = timezone.now() - timedelta(seconds=1)
        PendingAction.objects.filter(pk=sent.pk).update(settle_at=over)
        settle.settle_one(sent.pk)  # another process, minutes later

    script.after = slow
    settle.settle_one(sent.pk)
    assert called == [sent.pk]
    sent.refresh_from_db()
    assert (sent.settle_at, sent.settling_until) == (None, None)


def test_lease_outlasts_the_largest_upload(sent: PendingAction, script: Script) -> None:
    leases = []

    def look(approved: ApprovedAction) -> None:
        until = PendingAction.objects.get().settling_until
        assert until is not None
        leases.append(until)

    script.after = look
    settle.settle_one(sent.pk)
    assert leases[0] > timezone.now() + timedelta(seconds=2 * settle.UPLOAD_SECONDS)


def test_process_that_was_frozen_saves_no_copy(
    sent: PendingAction, server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[[int], float] = time.clock_gettime
    began: list[Any] = []

    def frozen(clock: int) -> float:
        began.append(clock)
        return real(clock) + (len(began) > 1) * 3600

    monkeypatch.setattr(time, "clock_gettime", frozen)
    settle.settle_one(sent.pk)
    assert server.folder(ADDRESS, "sent") == []
    monkeypatch.undo()

    PendingAction.objects.update(settle_at=timezone.now() - timedelta(seconds=1))
    settle.settle_one(sent.pk)
    assert len(server.folder(ADDRESS, "sent")) == 1
