"""The lease of a claim is renewed while its worker works, for a bounded time, and never after it
has ended.
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from approvals.core.types import ApprovedAction, Outcome
from approvals.models import PendingAction
from approvals.worker.execution import execute
from tests.approvals.kinds import NOT_NOW, Script

pytestmark = pytest.mark.django_db(transaction=True)


def renewal() -> threading.Thread:
    """Return the thread that renews the lease of the first claim."""
    (found,) = (thread for thread in threading.enumerate() if thread.name == "lease-1")
    return found


def lease_is_over() -> bool:
    return PendingAction.objects.filter(lease_until__lte=timezone.now()).exists()


def test_kind_that_never_returns_loses_its_lease(
    approved: Callable[..., PendingAction], script: Script, settings: Any
) -> None:
    """End the lease because its mailbox would otherwise send nothing until somebody ends the
    worker.
    """
    action = approved()
    settings.MAILHUB_LEASE_SECONDS, settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 0.3, 0.2
    seen: list[bool] = []

    def hangs(approved: ApprovedAction) -> Outcome:
        renews = renewal()
        renews.join(5)
        seen.append(renews.is_alive())
        return NOT_NOW

    script.instead = hangs
    execute(action.pk, worker="test")

    assert seen == [False]


def test_renewal_does_not_revive_an_ended_lease(
    approved: Callable[..., PendingAction], script: Script, settings: Any
) -> None:
    """Let the lease end: a sweeper may have seen its end already, and another worker may have
    begun.
    """
    action = approved()
    settings.MAILHUB_LEASE_SECONDS, settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 0.3, 0.5
    seen: list[bool] = []

    def late(approved: ApprovedAction) -> Outcome:
        PendingAction.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        renewal().join(5)
        seen.append(lease_is_over())
        return NOT_NOW

    script.instead = late
    execute(action.pk, worker="test")

    assert seen == [True]
