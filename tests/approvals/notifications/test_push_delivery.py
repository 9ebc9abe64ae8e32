"""A push from the proposal to its withdrawal: what a browser receives when workers sweep."""

import json
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from accounts.models import User
from approvals.gate import decide as verdicts
from approvals.models import Notification, NotificationChannel, PendingAction
from approvals.outbound.notifications import gather
from approvals.outbound.notifications.channels.adding import add_push
from approvals.outbound.notifications.channels.web_push import public_key
from tests.approvals.notifications.conftest import Post, post
from tests.approvals.webhook_listener import httpserver
from tests.conftest import Api
from tests.support.people.browser import browser
from tests.support.servers.push_service import PushService

__all__ = ["httpserver", "post"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def service(httpserver: HTTPServer, bob: User) -> PushService:
    found = PushService(httpserver, server_key=public_key())
    add_push(bob, found.subscription, label="Chrome, Linux")
    return found


def test_push_shows_a_link_and_is_closed_after_the_decision(
    post: Post, api: Api, alice: User, service: PushService
) -> None:
    action = api.propose(subject="Delivery on Thursday")
    post.sweep()
    (shown,) = service.received
    assert shown["url"] == f"/actions/{action}/"
    assert shown["badge"] == 1
    assert "Thursday" not in json.dumps(shown)
    verdicts.reject(action_id=UUID(action), person=alice, note="Not like this")
    post.sweep(after=timedelta(minutes=1))
    assert service.received[1:] == [{"close": shown["tag"], "badge": 0}]


def test_push_of_a_proposal_that_was_decided_meanwhile_is_closed(
    post: Post, api: Api, alice: User, service: PushService
) -> None:
    action = api.propose()

    def decide(_request: Request) -> Response:
        try:
            verdicts.reject(action_id=UUID(action), person=alice, note="Not like this")
            gather.gather()
        finally:
            connection.close()
        return Response(status=201)

    service.server.expect_oneshot_request("/push/one").respond_with_handler(decide)
    post.sweep()
    assert PendingAction.objects.get().status == "rejected"
    post.sweep(after=timedelta(minutes=1))
    row = Notification.objects.get(channel__kind="web_push")
    assert row.delivery is not None
    assert service.received == [{"close": row.delivery.hex, "badge": 0}]


def test_push_shows_sender_and_subject_if_its_person_chose_so(
    post: Post, api: Api, service: PushService
) -> None:
    NotificationChannel.objects.filter(kind="web_push").update(content="preview")
    api.propose(subject="Delivery on Thursday", body="A secret of the text")
    post.sweep()
    assert service.received[0]["body"] == "Agent agent: Delivery on Thursday"
    assert "secret" not in json.dumps(service.received)


def test_ended_subscription_pauses_its_channel(
    post: Post, api: Api, bob: User, service: PushService
) -> None:
    service.answers = [410]
    api.propose()
    post.sweep()
    channel = NotificationChannel.objects.get(kind="web_push")
    assert channel.paused_at is not None
    assert "The service answered 410" in browser(bob).get("/notifications/").content.decode()


def test_badge_counts_what_the_person_may_decide(
    post: Post, api: Api, service: PushService
) -> None:
    api.propose()
    post.sweep()
    assert service.received[0]["badge"] == 1
