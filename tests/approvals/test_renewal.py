"""The lease of a claim is renewed while its worker works, for a bounded time, and never after it
has ended.
"""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.backends.signals import connection_created
from django.utils import timezone

from approvals.core.types import ApprovedAction, Outcome
from approvals.gate.execute import execute
from approvals.models import PendingAction
from tests.approvals.kinds import NOT_NOW, Script

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def renewal() -> threading.Thread:
    """Return the thread that renews the lease of the first claim."""
    (found,) = (thread for thread in threading.enumerate() if thread.name == "lease-1")
    return found


def lease_is_over() -> bool:
    return PendingAction.objects.filter(lease_until__lte=timezone.now()).exists()


@pytest.fixture(autouse=True)
def _often(settings: Any) -> None:
    settings.MAILHUB_LEASE_SECONDS = 0.3  # a renewal each tenth of a second


@pytest.fixture
def renewed() -> Iterator[threading.Event]:
    """Yield an event that each statement of the renewing thread sets."""
    event = threading.Event()

    def note(execute: Callable[..., Any], *given: Any) -> Any:
        done = execute(*given)
        event.set()
        return done

    def watch(connection: Any, **_: object) -> None:
        if threading.current_thread().name.startswith("lease-"):
            connection.execute_wrappers.append(note)

    connection_created.connect(watch)
    yield event
    connection_created.disconnect(watch)


def test_kind_that_never_returns_loses_its_lease(
    approved: Callable[..., PendingAction], script: Script, settings: Any
) -> None:
    """End the lease because its mailbox would else send nothing until somebody ends the worker."""
    action = approved()
    seen: list[bool] = []

    def hangs(approved: ApprovedAction) -> Outcome:
        renews = renewal()
        settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 0  # the time is over
        renews.join(30)
        seen.append(renews.is_alive())
        return NOT_NOW

    script.instead = hangs
    execute(action.pk, worker="test")

    assert seen == [False]


def test_renewal_does_not_revive_an_ended_lease(
    approved: Callable[..., PendingAction], script: Script, renewed: threading.Event
) -> None:
    """Let the lease end: a sweeper may have seen its end, and another worker may have begun."""
    action = approved()
    seen: list[bool] = []

    def late(approved: ApprovedAction) -> Outcome:
        PendingAction.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        for _ in range(2):  # the first may have begun before the end
            renewed.clear()
            assert renewed.wait(30)
        seen.append(lease_is_over())
        return NOT_NOW

    script.instead = late
    execute(action.pk, worker="test")

    assert seen == [True]
