"""Push ends in a browser that is signed out: here, from elsewhere, or with all others."""

from collections.abc import Callable
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.test import Client
from pytest_httpserver import HTTPServer

from accounts.models import User
from accounts.people.recovery import recover
from approvals.models import NotificationChannel
from approvals.outbound.notifications.channels.web_push import public_key
from tests.approvals.webhook_listener import httpserver
from tests.support.people.browser import browser
from tests.support.servers.push_service import PushService

__all__ = ["httpserver"]
pytestmark = pytest.mark.django_db
PASSWORD, NEW = "a long and quiet password", "another long and quiet one"


@pytest.fixture
def open_window(alice: User, httpserver: HTTPServer) -> Callable[[str], Client]:
    """Return a function that signs Alice in with a new browser, and turns on push there."""
    alice.set_password(PASSWORD)
    alice.save()
    subscription = PushService(httpserver, server_key=public_key()).subscription

    def open_one(name: str) -> Client:
        window = Client(headers={"user-agent": name})
        window.post("/sign-in/", {"login": alice.email, "password": PASSWORD})
        endpoint = f"{subscription['endpoint']}/{name}"
        window.post("/notifications/push/", {**subscription, "endpoint": endpoint})
        NotificationChannel.objects.filter(label="").update(label=name)
        return window

    return open_one


def labels() -> set[str]:
    return set(NotificationChannel.objects.values_list("label", flat=True))


def test_browser_that_is_signed_out_elsewhere_gets_no_push(
    open_window: Callable[[str], Client], alice: User
) -> None:
    here, _phone, _tablet = (open_window(name) for name in ("here", "phone", "tablet"))
    NotificationChannel.objects.create(user=alice, kind="email", label="mail")
    assert labels() == {"here", "phone", "tablet", "mail"}
    one = UserSession.objects.get(user_agent="phone")
    here.post(f"/account/sessions/{one.pk}/end/")
    assert labels() == {"here", "tablet", "mail"}
    here.post("/account/sessions/end-others/")
    assert labels() == {"here", "mail"}
    here.post("/sign-out/")
    assert labels() == {"mail"}


def test_later_session_of_the_browser_ends_its_push(
    open_window: Callable[[str], Client], alice: User
) -> None:
    here, phone = open_window("here"), open_window("phone")
    UserSession.objects.get(user_agent="phone").delete()  # as after the time of a session
    del phone.cookies["sessionid"]
    phone.post("/sign-in/", {"login": alice.email, "password": PASSWORD})
    one = UserSession.objects.get(user_agent="phone")
    here.post(f"/account/sessions/{one.pk}/end/")
    assert labels() == {"here"}


def change_password(window: Client, alice: User) -> None:
    window.post("/account/password/", {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW})


def deactivate(window: Client, alice: User) -> None:
    boss = User.objects.create_superuser("boss@lovelace.example", PASSWORD)
    form = {"first_name": "Alice", "last_name": "", "is_active": ""}
    browser(boss).post(f"/admin/accounts/user/{alice.pk}/change/", form)


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (change_password, {"here"}),
        (lambda _window, alice: recover(alice), set()),
        (deactivate, set()),
    ],
)
def test_end_of_all_sessions_ends_push(
    open_window: Callable[[str], Client], alice: User, end: Any, left: set[str]
) -> None:
    here = open_window("here")
    open_window("phone")
    end(here, alice)
    assert labels() == left
