"""Deliveries are repeated until the end, and go only where they may, beside all other work."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from accounts.models import ApiToken, Mailbox, Membership, User
from approvals.models import WebhookDelivery
from approvals.outbound.webhooks import courier
from approvals.worker import maintenance
from tests.approvals.webhook_listener import Listener, httpserver, hurried, listener, told
from tests.conftest import Api, Reviewer, make_api
from tests.support.people.browser import browser
from tests.support.processes.programs import manage, this_test, until
from tests.support.work import work

__all__ = ["httpserver", "listener"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_failed_delivery_is_repeated_under_the_same_number(api: Api, listener: Listener) -> None:
    listener.added(api, events=["action.proposed"])
    listener.answers = [500, 302, 200]
    api.propose()
    for count in (1, 2, 3):
        told()
        told()  # nothing arrives before its time
        assert len(listener.heard) == count
        hurried()
    told()
    assert len(listener.heard) == 3
    assert len(set(listener.numbers)) == 1
    delivery = WebhookDelivery.objects.get()
    assert (delivery.tries, delivery.answer, delivery.next_at) == (3, "200", None)


def test_delivery_ends_after_the_last_attempt_and_can_resume(
    api: Api, alice: User, listener: Listener
) -> None:
    webhook = listener.added(api, events=["action.proposed"])
    listener.answers = [500] * (len(courier.AGAIN) + 1)
    api.propose()
    for _ in range(len(courier.AGAIN) + 3):
        told()
        hurried()
    delivery = WebhookDelivery.objects.get()
    assert (delivery.tries, delivery.next_at, delivery.delivered_at) == (
        len(courier.AGAIN) + 1,
        None,
        None,
    )

    again = browser(alice).post(f"/webhooks/{webhook}/deliveries/{delivery.pk}/again/")
    assert again.status_code == 302
    told()
    assert WebhookDelivery.objects.get().delivered_at is not None
    assert len(set(listener.numbers)) == 1


def test_endpoint_that_is_gone_gets_nothing_more(api: Api, listener: Listener) -> None:
    listener.added(api)
    listener.answers = [410]
    api.propose()
    told()
    hurried()
    api.propose(subject="Another")
    told()
    assert len(listener.heard) == 1
    (shown,) = api.get("/webhooks").json()["items"]
    assert shown["ended_at"]


@pytest.mark.parametrize("reason", ["left", "revoked", "expired", "deactivated"])
def test_person_who_lost_access_is_not_notified(
    bob: User, mailbox: Mailbox, api: Api, listener: Listener, reason: str
) -> None:
    listener.added(make_api(bob, mailbox, name="bobs"))
    match reason:
        case "left":
            Membership.objects.filter(user=bob).delete()
        case "revoked":
            ApiToken.objects.filter(user=bob).update(revoked_at=timezone.now())
        case "expired":
            ApiToken.objects.filter(user=bob).update(
                expires_at=timezone.now() - timedelta(seconds=1)
            )
        case "deactivated":
            User.objects.filter(pk=bob.pk).update(is_active=False)
    api.propose()
    told()
    assert listener.heard == []


def test_former_member_gets_no_waiting_delivery(
    bob: User, mailbox: Mailbox, api: Api, listener: Listener
) -> None:
    webhook = listener.added(make_api(bob, mailbox, name="bobs"), events=["action.proposed"])
    listener.answers = [500]
    api.propose()
    told()
    Membership.objects.filter(user=bob).delete()
    hurried()
    browser(bob).post(f"/webhooks/{webhook}/deliveries/{WebhookDelivery.objects.get().pk}/again/")
    told()
    assert len(listener.heard) == 1


def test_program_delivers_no_event_another_is_delivering(
    api: Api, listener: Listener, httpserver: HTTPServer, tmp_path: Path
) -> None:
    listener.added(api, events=["action.proposed"])
    first, second = api.propose(subject="First"), api.propose(subject="Second")
    asked, go_on, beside_us = threading.Event(), threading.Event(), this_test()
    beside_us["MAILHUB_LOOPBACK_SERVERS"] = f"127.0.0.1:{httpserver.port}"
    beside_us["DJANGO_SETTINGS_MODULE"] = "tests.support.processes.wizard_settings"

    def hold() -> None:
        asked.set()
        go_on.wait(60)

    listener.meanwhile = hold
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(lambda: manage(tmp_path, "maintain", stdin="", **beside_us))
        assert asked.wait(60)
        listener.meanwhile = lambda: None
        told()  # while the other waits for its answer
        go_on.set()
        assert other.result().returncode == 0, other.result().stderr
    assert sorted(message["data"]["id"] for message in listener.heard) == sorted([first, second])


def test_silent_server_delays_no_mail_and_no_other_webhook(
    api: Api, reviewer: Reviewer, httpserver: HTTPServer, listener: Listener
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hang(request: Request) -> Response:
        asked.set()
        go_on.wait(30)
        return Response(status=200)

    httpserver.expect_request("/slow").respond_with_handler(hang)
    api.post("/webhooks", {"url": httpserver.url_for("/slow"), "events": ["action.proposed"]})
    action = api.propose()
    try:
        maintenance.sweep(resident=True)
        assert asked.wait(30)
        listener.added(api, events=["action.approved", "action.succeeded"])
        reviewer.decide(action, "approve")
        work()
        maintenance.sweep(resident=True)
        until(lambda: listener.types == ["action.approved", "action.succeeded"])
        assert WebhookDelivery.objects.filter(event="action.proposed", delivered_at=None).exists()
    finally:
        go_on.set()
        until(lambda: WebhookDelivery.objects.get(event="action.proposed").answer == "200")


def test_redirect_is_not_followed(api: Api, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/moved").respond_with_data(
        status=307, headers={"Location": "/inside"}
    )
    api.post("/webhooks", {"url": httpserver.url_for("/moved")})
    api.propose()
    told()
    assert [request.path for request, _ in httpserver.log] == ["/moved"]
    assert WebhookDelivery.objects.get().answer == "307"


def test_newly_internal_address_gets_nothing(api: Api, listener: Listener, settings: Any) -> None:
    listener.added(api)
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = frozenset()
    api.propose()
    told()
    assert listener.heard == []
    assert WebhookDelivery.objects.get().answer == "unreachable"
