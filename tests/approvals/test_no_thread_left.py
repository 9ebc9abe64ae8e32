"""A machine without a free thread: what could not begin then begins when there is one again."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest

from accounts.access import request_log
from accounts.models import RequestRecord
from approvals.live.hub import Hub, Waiter
from approvals.models import WebhookDelivery
from approvals.outbound.webhooks import outbox
from approvals.worker import maintenance
from approvals.worker.background import AT_ONCE, Background
from tests.approvals.webhook_listener import Listener, httpserver, listener
from tests.conftest import Api
from tests.support.processes.programs import until

__all__ = ["httpserver", "listener"]
pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 30


@contextmanager
def no_thread_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        yield


def test_work_beside_the_sweep_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    done: queue.Queue[UUID] = queue.Queue()
    waiting = [(uuid4(), uuid4()) for _ in range(2 * AT_ONCE)]
    beside = Background("chore", lambda: waiting, done.put, idle_seconds=0)
    with no_thread_left(monkeypatch):
        for _ in range(AT_ONCE):
            beside.start()
    beside.start()

    assert {done.get(timeout=SECONDS) for _ in waiting} == {action for _, action in waiting}


def test_webhooks_are_delivered_later(
    api: Api, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.added(api, events=["action.proposed"])
    api.propose()
    outbox.gather()
    with no_thread_left(monkeypatch):
        for _ in range(AT_ONCE):
            maintenance.WEBHOOKS.start()
    maintenance.WEBHOOKS.start()

    until(lambda: WebhookDelivery.objects.filter(delivered_at__isnull=False).exists())


def test_waiting_program_is_woken_up_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait_for_event() -> None:
        hub, action = Hub(), uuid4()
        waiter = Waiter(
            person_id=1,
            action_id=action,
            after=0,
            loop=asyncio.get_running_loop(),
            happened=asyncio.Event(),
        )
        with no_thread_left(monkeypatch), pytest.raises(RuntimeError):
            hub.add_waiter(waiter, floor=0)
        hub.add_waiter(waiter, floor=0)
        thread = hub._thread
        assert thread is not None
        hub.remove_waiter(waiter)
        await asyncio.to_thread(thread.join, SECONDS)
        assert not thread.is_alive()

    asyncio.run(wait_for_event())


def test_call_is_answered_and_recorded_later(
    api: Api, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MAILHUB_REQUEST_LOG_SECONDS = 0.01
    monkeypatch.setattr(request_log, "IDLE_SECONDS", 0)
    monkeypatch.setattr(request_log, "WRITER", request_log.Writer())
    with no_thread_left(monkeypatch):
        api.tool("list_mailboxes")
    api.tool("list_mailboxes")

    until(lambda: RequestRecord.objects.count() == 2)
