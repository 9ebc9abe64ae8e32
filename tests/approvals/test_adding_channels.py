"""Adding a channel on the pages: this browser, and chat or phone services."""

from typing import Any

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from accounts.models import User
from approvals.models import NotificationChannel
from approvals.outbound.notifications.channels.adding import AT_MOST
from approvals.outbound.notifications.channels.web_push import public_key
from tests.approvals.webhook_listener import httpserver
from tests.support.people.browser import browser
from tests.support.servers.chat_services import ChatServices
from tests.support.servers.push_service import PushService

__all__ = ["httpserver"]
pytestmark = pytest.mark.django_db
PUSH, CHAT, PAGE = "/notifications/push/", "/notifications/chat/", "/notifications/"
FIREFOX = {"User-Agent": "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0"}


@pytest.fixture
def window(alice: User) -> Client:
    return browser(alice)


@pytest.fixture
def service(httpserver: HTTPServer) -> PushService:
    return PushService(httpserver, server_key=public_key())


def channels(kind: str) -> list[NotificationChannel]:
    return list(NotificationChannel.objects.filter(kind=kind))


def press_test(window: Client, channel: NotificationChannel) -> str:
    answer = window.post(f"{PAGE}{channel.pk}/test/", follow=True)
    return str(answer.content.decode())


def test_browser_becomes_a_channel_that_shows_only_a_link(
    window: Client, alice: User, service: PushService
) -> None:
    page = window.post(PUSH, service.subscription, headers=FIREFOX, follow=True).content.decode()
    (channel,) = channels("web_push")
    assert (channel.user, channel.label, channel.content) == (alice, "Firefox, Android", "link")
    assert "Notifications are on in this browser" in page
    assert service.subscription["auth"] not in page
    assert "was taken" in press_test(window, channel)
    assert service.received[0]["title"]


def test_browser_that_subscribes_again_keeps_its_channel(
    window: Client, service: PushService
) -> None:
    window.post(PUSH, service.subscription)
    NotificationChannel.objects.update(paused_at="2026-01-01T00:00Z", failures=5, content="subject")
    window.post(PUSH, {**service.subscription, "auth": "bmV3IHNlY3JldCBieXRl"})
    (channel,) = channels("web_push")
    assert (channel.paused_at, channel.failures, channel.content) == (None, 0, "subject")
    assert "bmV3IHNlY3JldCBieXRl" in channel.address


def test_browser_belongs_to_the_person_who_turned_it_on_last(
    window: Client, bob: User, service: PushService
) -> None:
    window.post(PUSH, service.subscription)
    browser(bob).post(PUSH, service.subscription)
    (channel,) = channels("web_push")
    assert channel.user == bob


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint": ""},
        {"endpoint": "javascript:alert(1)"},
        {"endpoint": "https://push.example/\n/two"},
        {"endpoint": "https://person@push.example/one"},
        {"key": "BGone"},
        {"p256dh": "x" * 3000},
    ],
)
def test_unusable_subscription_is_refused(
    window: Client, service: PushService, change: dict[str, str]
) -> None:
    page = window.post(PUSH, {**service.subscription, **change}, follow=True).content.decode()
    assert "no usable subscription" in page
    assert channels("web_push") == []


def test_unencrypted_push_service_is_refused_outside_of_loopback(
    window: Client, service: PushService, settings: Any
) -> None:
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = frozenset()
    window.post(PUSH, service.subscription)
    assert channels("web_push") == []


def test_chat_address_is_stored_but_never_shown_again(
    window: Client, httpserver: HTTPServer
) -> None:
    services = ChatServices(httpserver)
    address = f"gotify://127.0.0.1:{httpserver.port}/gotifysecret"
    page = window.post(CHAT, {"address": address, "label": "the office"}, follow=True)
    (channel,) = channels("apprise")
    assert (channel.label, channel.content, channel.address) == ("the office", "link", address)
    assert "gotifysecret" not in page.content.decode()
    assert "the office" in page.content.decode()
    assert "was taken" in press_test(window, channel)
    assert len(services.said) == 1


def test_test_shows_what_the_service_really_answers(window: Client, httpserver: HTTPServer) -> None:
    ChatServices(httpserver)
    window.post(CHAT, {"address": f"gotify://127.0.0.1:{httpserver.port}/anothersecret"})
    (channel,) = channels("apprise")
    page = press_test(window, channel)
    assert "The test failed" in page
    assert "401 Unauthorized" in page
    assert "errorCode" in page


def test_address_that_is_refused_says_how_to_write_it(window: Client) -> None:
    page = window.post(CHAT, {"address": "gotify://"}).content.decode()
    assert "gotifys://gotify.example/TOKEN" in page
    for wrong in ("https://[", "slack://[", "json://[::1"):
        page = window.post(CHAT, {"address": wrong}).content.decode()
        assert "mailhub does not know this kind" in page or "That is not an address of" in page
    page = window.post(CHAT, {"address": "slack://T1/B1/x?template=/etc/passwd"}).content.decode()
    assert "The option template is not allowed" in page
    assert channels("apprise") == []


def test_person_has_a_limited_number_of_channels(window: Client, alice: User) -> None:
    NotificationChannel.objects.bulk_create(
        NotificationChannel(user=alice, kind="apprise", address="x") for _ in range(AT_MOST)
    )
    page = window.post(CHAT, {"address": "gotifys://gotify.example/token"}).content.decode()
    assert f"You have {AT_MOST} channels" in page
    assert len(channels("apprise")) == AT_MOST
