"""The limits of a session: its key is only in the browser, and it ends by itself."""

import base64
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.core import serializers
from django.test import Client
from django.utils import timezone

from accounts.infra.keys import is_encrypted
from accounts.models import User
from accounts.people.sessions import stored_key
from mailhub.agent.models import Thread
from tests.support.people.browser import browser, sign_in

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "a long and quiet word"
ROOT = Path(__file__).parent.parent.parent
PRESSED = {"Sec-Fetch-User": "?1"}  # a browser sends it if a person pressed a link
HTML = "text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.fixture
def window(alice: User) -> Client:
    alice.set_password(PASSWORD)
    alice.save()
    client = Client()
    client.post("/sign-in/", {"login": alice.email, "password": PASSWORD})
    assert is_signed_in(client)
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/mailboxes/", headers=PRESSED).status_code == 200


def holding(cookie: str) -> Client:
    client = Client()
    client.cookies["sessionid"] = cookie
    return client


def test_stored_session_keys_open_nothing(window: Client) -> None:
    stored = [
        *Session.objects.values_list("pk", flat=True),
        *UserSession.objects.values_list("session_key", flat=True),
    ]
    assert len(stored) == 2
    assert not any(is_signed_in(holding(key)) for key in stored)
    tables = serializers.serialize("json", [*Session.objects.all(), *UserSession.objects.all()])
    assert window.cookies["sessionid"].value not in tables
    assert is_signed_in(holding(window.cookies["sessionid"].value))


def test_stored_session_is_readable_only_with_a_key_in_its_row(alice: User, settings: Any) -> None:
    window, other = browser(alice), browser(alice)
    assert window.get("/account/factors/totp/activate/").status_code == 200
    secret = window.session["mfa.totp.secret"]
    rows = [
        Session.objects.get(pk=stored_key(each.cookies["sessionid"].value))
        for each in (window, other)
    ]
    record = base64.b64decode(rows[0].session_data)
    assert is_encrypted(record)
    assert secret.encode() not in record

    Session.objects.filter(pk=rows[1].pk).update(session_data=rows[0].session_data)
    assert not is_signed_in(other)
    old, new = settings.MAILHUB_ENCRYPTION_KEYS, base64.b64encode(b"n" * 32).decode()
    settings.MAILHUB_ENCRYPTION_KEYS = [new, *old]
    assert is_signed_in(window)
    settings.MAILHUB_ENCRYPTION_KEYS = [new]
    assert not is_signed_in(window)


def test_password_change_keeps_this_session_and_stores_no_key(window: Client) -> None:
    new = "another long and quiet word"
    window.post("/account/password/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    assert is_signed_in(window)
    tables = serializers.serialize("json", [*Session.objects.all(), *UserSession.objects.all()])
    assert window.cookies["sessionid"].value not in tables
    assert window.get("/account/").content.count(b"This browser") == 1


def test_unused_session_ends_after_the_idle_limit(window: Client) -> None:
    start = timezone.now()
    for hours in (11, 22, 33):  # each use restarts the limit
        with time_machine.travel(start + timedelta(hours=hours), tick=False):
            assert is_signed_in(window)
    with time_machine.travel(start + timedelta(hours=33 + 13), tick=False):
        assert not is_signed_in(window)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"path": "/live/changes/"}, id="changes"),
        pytest.param({"path": "/agent/threads/talk/cards/"}, id="cards of the chat"),
        pytest.param({"path": "/", "HTTP_ACCEPT": HTML}, id="a page that loads itself again"),
        pytest.param({"path": "/account/language/", "method": "POST"}, id="a script that posts"),
    ],
)
def test_open_page_alone_keeps_no_session_alive(
    window: Client, alice: User, asked: dict[str, Any]
) -> None:
    Thread.objects.create(user=alice, name="talk")
    start = timezone.now()
    for hours in (5, 10):
        with time_machine.travel(start + timedelta(hours=hours), tick=False):
            method, path = asked.get("method", "GET"), asked["path"]
            accept = {"Accept": asked.get("HTTP_ACCEPT", "*/*")}
            assert window.generic(method, path, headers=accept).status_code in (200, 302, 400)
    with time_machine.travel(start + timedelta(hours=13), tick=False):
        assert not is_signed_in(window)


def test_posted_form_keeps_a_session_alive_in_any_browser(window: Client) -> None:
    start = timezone.now()
    with time_machine.travel(start + timedelta(hours=11), tick=False):
        window.post("/account/language/", {"language": "en"}, headers={"Accept": HTML})
    with time_machine.travel(start + timedelta(hours=13), tick=False):
        assert is_signed_in(window)


def test_used_session_ends_after_the_absolute_limit(window: Client, settings: Any) -> None:
    start = timezone.now()
    for hours in range(10, 14 * 24, 10):
        with time_machine.travel(start + timedelta(hours=hours), tick=False):
            assert is_signed_in(window)
    with time_machine.travel(start + timedelta(days=14, minutes=1), tick=False):
        assert not is_signed_in(window)


def test_cookies_are_limited_to_this_host_behind_tls(tmp_path: Path) -> None:
    names = "s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME, s.SESSION_COOKIE_SECURE"
    code = f"from django.conf import settings as s; print({names})"
    env = {
        **os.environ,
        "MAILHUB_PUBLIC_URL": "https://mail.example",
        "MAILHUB_HOME": str(tmp_path),
    }
    env["DJANGO_SETTINGS_MODULE"] = "mailhub.settings"
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
    )
    assert said.stdout.split() == ["__Host-sessionid", "__Host-csrftoken", "True"], said.stderr


def test_tests_sign_in_with_the_session_of_a_real_sign_in(alice: User, charlie: User) -> None:
    """Compare the helper of most tests with Django's sign-in, which runs the receivers."""
    real, stored = Client(), Client()
    with time_machine.travel(timezone.now(), tick=False):
        real.force_login(alice)
        [real_row] = Session.objects.all()
        sign_in(stored, alice)
        [stored_row] = Session.objects.exclude(pk=real_row.pk)

        assert dict(stored.session.items()) == dict(real.session.items())
        assert stored_row.expire_date == real_row.expire_date
        assert len(stored_row.pk) == len(real_row.pk)
        assert stored.cookies.keys() == real.cookies.keys()
        assert is_signed_in(stored)

        real.force_login(charlie)
        signed_in_at = charlie.last_login
        User.objects.update(last_login=None)
        sign_in(stored, charlie)
        charlie.refresh_from_db()
        assert charlie.last_login == signed_in_at is not None
