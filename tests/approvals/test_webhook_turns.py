"""One delivery run of a webhook: in order, up to the first failure, for a limited time, by one
worker.
"""

import logging
import threading
import time
from queue import Queue
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import WebhookDelivery
from approvals.outbound.webhooks import courier, outbox
from approvals.worker import maintenance
from approvals.worker.background import AT_ONCE
from tests.approvals.webhook_listener import Listener, httpserver, hurried, listener
from tests.conftest import Api, make_api
from tests.support.processes.programs import until

__all__ = ["httpserver", "listener"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def two_due(api: Api, listener: Listener) -> list[str]:
    """Return the ids of two actions whose proposals one webhook has to deliver."""
    listener.added(api, events=["action.proposed"])
    return [api.propose(subject="First"), api.propose(subject="Second")]


def take_turn() -> None:
    """Let one worker deliver once everything that is due."""
    outbox.gather()
    maintenance.WEBHOOKS.finish()


def deliver_the_rest() -> bool:
    """Deliver beside the threads what they left; return True if nothing waits any more."""
    maintenance.WEBHOOKS.finish()
    return not WebhookDelivery.objects.filter(delivered_at=None).exists()


def heard(listener: Listener) -> list[str]:
    return [message["data"]["id"] for message in listener.heard]


def test_delivery_round_ends_at_the_first_failure(two_due: list[str], listener: Listener) -> None:
    listener.answers = [500]
    take_turn()
    assert heard(listener) == two_due[:1]
    hurried()
    take_turn()
    assert heard(listener) == [two_due[0], *two_due]


def test_delivery_round_ends_at_its_time_limit(
    two_due: list[str], listener: Listener, monkeypatch: Any
) -> None:
    clock, ahead = time.monotonic, [0.0]

    class EachTryTakesLong(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            ahead[0] += courier.TURN_SECONDS + 1

    monkeypatch.setattr(time, "monotonic", lambda: clock() + ahead[0])
    tries, slow = logging.getLogger(courier.__name__), EachTryTakesLong()
    tries.addHandler(slow)
    try:
        take_turn()
        assert heard(listener) == two_due[:1]
        take_turn()
    finally:
        tries.removeHandler(slow)
    assert heard(listener) == two_due


def elsewhere(change: Any) -> None:
    """Run it in another thread with its own connection."""

    def run() -> None:
        change()
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)


def test_delivery_of_another_worker_is_kept(two_due: list[str], listener: Listener) -> None:
    second = WebhookDelivery.objects.filter(action=UUID(two_due[1]))

    def deliver_second() -> None:
        second.update(tries=1, next_at=None, delivered_at=timezone.now())

    listener.meanwhile = lambda: elsewhere(deliver_second)
    take_turn()
    assert heard(listener) == two_due[:1]


def test_webhook_of_a_busy_worker_is_left_alone(two_due: list[str], listener: Listener) -> None:
    answers: list[list[str]] = []

    def try_as_another_worker() -> None:
        listener.meanwhile = lambda: None
        elsewhere(maintenance.WEBHOOKS.finish)
        answers.append(heard(listener))

    listener.meanwhile = try_as_another_worker
    take_turn()
    assert answers == [two_due[:1]]
    assert heard(listener) == two_due


def test_events_from_outside_a_membership_are_not_delivered(
    bob: User, mailbox: Mailbox, api: Api, listener: Listener
) -> None:
    listener.added(make_api(bob, mailbox, name="bobs"), events=["action.proposed"])
    Membership.objects.filter(user=bob).delete()
    api.propose(subject="While Bob is away")
    take_turn()
    Membership.objects.create(user=bob, mailbox=mailbox, role=Role.VIEWER)
    hurried()
    take_turn()
    assert listener.heard == []


def test_slow_receivers_of_one_owner_leave_threads_to_others(
    mailbox: Mailbox, bob: User, api: Api, httpserver: HTTPServer, listener: Listener
) -> None:
    asked: Queue[str] = Queue()
    go_on = threading.Event()

    def hang(request: Request) -> Response:
        asked.put(request.path)
        go_on.wait(60)
        return Response(status=200)

    for number in range(AT_ONCE):
        owner = make_api(bob, mailbox, name=f"bobs {number}")
        httpserver.expect_request(f"/slow/{number}").respond_with_handler(hang)
        slow = {"url": httpserver.url_for(f"/slow/{number}"), "events": ["action.proposed"]}
        assert owner.post("/webhooks", slow).status_code == 201
    api.propose(subject="First")
    outbox.gather()
    try:
        maintenance.WEBHOOKS.start()
        for _ in range(courier.AT_ONCE_FOR_AN_OWNER):
            asked.get(timeout=60)
        listener.added(api, events=["action.proposed"])
        api.propose(subject="Second")
        outbox.gather()
        maintenance.WEBHOOKS.start()
        until(lambda: heard(listener))
        assert asked.empty()
    finally:
        go_on.set()
        until(deliver_the_rest)
    assert len(httpserver.log) == 2 * AT_ONCE + 1
