"""Push messages over the wire, to a push service that checks and decrypts them."""

import base64
from typing import Any

import pytest
from django.db import connection
from pytest_httpserver import HTTPServer

from accounts.models import User
from approvals.models import NotificationChannel
from approvals.outbound.notifications.channels.port import get_transport
from approvals.outbound.notifications.channels.web_push import public_key
from tests.approvals.channel_messages import channel_of, message, send
from tests.approvals.webhook_listener import httpserver
from tests.support.servers.push_service import PushService

__all__ = ["httpserver"]
pytestmark = pytest.mark.django_db
OLD, NEW = (base64.b64encode(letter * 32).decode() for letter in (b"k", b"n"))


@pytest.fixture
def service(httpserver: HTTPServer) -> PushService:
    return PushService(httpserver, server_key=public_key())


@pytest.fixture
def channel(alice: User, service: PushService) -> NotificationChannel:
    return channel_of(alice, "web_push", service.subscription)


def test_browser_decrypts_a_push_that_opens_the_review_page(
    channel: NotificationChannel, service: PushService
) -> None:
    sent = message(urgent=True, waiting=3)
    answer = get_transport("web_push").send(channel, sent)
    assert (answer.result, answer.receipt) == ("taken", sent.id.hex)
    (payload,) = service.received
    assert payload == {
        "tag": sent.id.hex,
        "title": "1 mail waits for you",
        "body": "Support bot: Delivery on Thursday",
        "url": "/actions/0194/",
        "lang": "en",
        "badge": 3,
    }
    assert service.headers[0]["Urgency"] == "high"
    assert service.headers[0]["Topic"] == sent.id.hex


def test_push_never_holds_the_preview_of_a_mail(
    channel: NotificationChannel, service: PushService
) -> None:
    assert get_transport("web_push").most == "subject"
    assert send(channel, item={"preview": "Dear Mira"}).result == "taken"
    assert "Dear" not in str(service.received)


def test_withdrawal_replaces_the_push_that_it_names(
    channel: NotificationChannel, service: PushService
) -> None:
    receipt = send(channel).receipt
    answer = get_transport("web_push").withdraw(channel, receipt, waiting=2)
    assert answer.result == "taken"
    assert service.received[-1] == {"close": receipt, "badge": 2}
    assert {each["Topic"] for each in service.headers} == {receipt}


@pytest.mark.parametrize(
    ("status", "result"),
    [(404, "gone"), (410, "gone"), (429, "not_sent"), (503, "not_sent"), (403, "refused")],
)
def test_answer_of_the_push_service_decides_what_follows(
    channel: NotificationChannel, service: PushService, status: int, result: str
) -> None:
    service.answers = [status]
    answer = send(channel)
    assert (answer.result, answer.code) == (result, f"http_{status}")
    assert len(service.received) == 1


def test_long_message_fits_into_one_record(
    channel: NotificationChannel, service: PushService
) -> None:
    item = {"sender": "漢" * 500, "subject": "字" * 2000}
    many = message(item=item).items * 50
    assert send(channel, items=many, title="題" * 900).result == "taken"
    assert service.received[0]["body"].count("\n") == 3


def test_older_key_signs_until_it_is_removed(
    channel: NotificationChannel, service: PushService, settings: Any
) -> None:
    before = public_key()
    settings.MAILHUB_ENCRYPTION_KEYS = [NEW, OLD]
    assert public_key() != before
    assert send(channel).result == "taken"
    settings.MAILHUB_ENCRYPTION_KEYS = [NEW]
    answer = send(channel)
    assert (answer.result, answer.code) == ("gone", "subscribe_again")
    assert len(service.received) == 1


def test_key_does_not_change_with_a_release() -> None:
    # Every subscription of every person belongs to this value.
    half = "BHMKB5SYQUwKYaB23ITKQn2P9120gOgin5Pbm0yn40R"
    assert public_key() == f"{half}iGDREx7ue296SdF_m3FIaCRFFxtcrxqdZ9WbQMm2ewZw"


def test_subscription_is_encrypted_in_the_database(channel: NotificationChannel) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT address FROM approvals_notificationchannel")
        (text,) = cursor.fetchone()
    assert text.startswith("mhseal1:")
    assert channel.address.startswith("{")
