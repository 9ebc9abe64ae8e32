"""Guessing passwords: it becomes slow, locks nobody out, and reveals nothing by its time."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from allauth.account.adapter import get_adapter
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone

from accounts.infra.cache import forget_expired
from accounts.models import User
from accounts.people import guessing
from approvals.models import AuditEvent
from approvals.models.audit import PEOPLE
from mailhub import settings as production
from mailhub.environment import mail_settings
from tests.support.people.authenticator import code_of
from tests.support.people.browser import browser
from tests.support.processes.programs import SECONDS
from tests.support.servers.smtp import FaultySmtp

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "a long and quiet word"
HOME, ELSEWHERE = "198.51.100.7", "203.0.113.9"


@pytest.fixture(autouse=True)
def _has_password(alice: User) -> None:
    alice.set_password(PASSWORD)
    alice.save()


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(timezone.now(), tick=False) as traveller:
        yield traveller


def attempt(
    password: str,
    address: str,
    *,
    client: Client | None = None,
    email: str = "alice@lovelace.example",
) -> str:
    answer: Any = (client or Client()).post(
        "/sign-in/", {"login": email, "password": password}, REMOTE_ADDR=address
    )
    if answer.status_code == 302:
        return "in"
    return "wait" if "Too many attempts" in answer.content.decode() else "wrong"


def guess(address: str, *, email: str = "alice@lovelace.example") -> str:
    """Try a wrong password as the sign-in page does, without the page: a loop costs a fifth."""
    request = RequestFactory().post("/sign-in/", REMOTE_ADDR=address)
    try:
        assert get_adapter(request).authenticate(request, email=email, password="wrong") is None
    except ValidationError as refusal:
        if refusal.code != "too_many_login_attempts":
            raise
        return "wait"
    return "wrong"


def test_foreign_guesses_do_not_delay_the_usual_network(clock: Any) -> None:
    assert attempt(PASSWORD, HOME) == "in"
    for number in range(60):
        guess(f"203.0.{number}.9")
    assert attempt(PASSWORD, "198.51.100.99") == "in"
    assert attempt("wrong", "192.0.2.1") == "wait"


def test_known_browser_gets_in_from_a_network_full_of_guesses(clock: Any) -> None:
    mine = Client()
    assert attempt(PASSWORD, HOME, client=mine) == "in"
    mine.post("/sign-out/")
    for _ in range(40):
        guess(ELSEWHERE)
    assert attempt(PASSWORD, ELSEWHERE) == "wait"
    assert attempt(PASSWORD, ELSEWHERE, client=mine) == "in"


def test_right_password_works_after_at_most_a_minute(clock: Any) -> None:
    for _ in range(40):
        guess(ELSEWHERE)
        clock.shift(timedelta(seconds=3))
    assert attempt(PASSWORD, ELSEWHERE) in ("wait", "in")
    clock.shift(timedelta(seconds=61))
    assert attempt(PASSWORD, ELSEWHERE) == "in"


def test_guesses_from_one_network_become_slow(clock: Any) -> None:
    looked_at = 0
    for _ in range(120):  # within ten minutes
        looked_at += guess(ELSEWHERE) == "wrong"
        clock.shift(timedelta(seconds=5))
    assert looked_at < 25
    assert attempt("wrong", ELSEWHERE) == "wait"


def test_one_guess_at_each_of_many_accounts_becomes_slow(clock: Any) -> None:
    for number in range(guessing.FREE_FOR_A_NETWORK):
        assert guess(ELSEWHERE, email=f"user{number}@lovelace.example") == "wrong"
    assert attempt("wrong", ELSEWHERE, email="another@lovelace.example") == "wait"
    assert attempt(PASSWORD, HOME) == "in"


def test_guesses_from_many_networks_become_slow(clock: Any) -> None:
    looked_at = 0
    for number in range(100):
        looked_at += guess(f"203.{number}.113.9") == "wrong"
        clock.shift(timedelta(seconds=2))
    assert looked_at < 30


def test_unknown_account_waits_like_a_known_one(clock: Any) -> None:
    known = [attempt("wrong", ELSEWHERE) for _ in range(8)]
    unknown = [attempt("wrong", "192.0.2.1", email="nobody@lovelace.example") for _ in range(8)]
    assert known == unknown
    assert known[-1] == "wait"


def test_many_failures_become_few_events_with_a_count(clock: Any) -> None:
    networks = guessing.EVENTS_AN_HOUR + 10
    for number in range(networks):
        guess(f"203.{number}.113.9", email=f"user{number}@lovelace.example")
        clock.shift(timedelta(seconds=3))
    for _ in range(12):
        guess(ELSEWHERE)
        clock.shift(timedelta(seconds=61))
    events = AuditEvent.objects.filter(chain=PEOPLE, event="sign_in_failed")
    assert events.count() == guessing.EVENTS_AN_HOUR
    clock.shift(timedelta(hours=1))
    guessing.record_counted()
    guessing.record_counted()

    assert len(events) <= guessing.EVENTS_AN_HOUR + 1 + guessing.EVENTS_AN_HOUR
    assert sum(event.data["count"] for event in events) == networks + 12
    assert {event.actor for event in events} == {"stranger"}
    named = {event.data.get("network", "") for event in events}
    assert all(network.endswith(".0/24") for network in named if network)
    assert "lovelace" not in str([event.data for event in events])


@pytest.mark.parametrize("path", ["/sign-in/code/", "/account/password/reset/"])
def test_stalled_mail_server_does_not_reveal_known_people(
    settings: Any, alice: User, path: str
) -> None:
    settings.MAILHUB_OWN_MAIL_THREADS = 2
    settings.SENDS_MAIL = True
    accepted = threading.Event()
    with FaultySmtp(on_accept=lambda _: accepted.set()) as smtp:
        for name, value in mail_settings(f"smtp://127.0.0.1:{smtp.port}").items():
            setattr(settings, name, value)
        hold = smtp.hold(at="mail")
        assert Client().post(path, {"email": alice.email}).status_code == 302
        hold.wait()  # the page has answered already
        assert smtp.ledger == []
        hold.release()
        assert accepted.wait(SECONDS)
        assert [each.recipients for each in smtp.ledger] == [(alice.email,)]


def test_strangers_do_not_delete_the_count_of_wrong_codes(alice: User, settings: Any) -> None:
    settings.CACHES = production.CACHES
    own = browser(alice)
    key = own.get("/account/factors/totp/activate/").context["form"].secret
    own.post("/account/factors/totp/activate/", {"code": code_of(key)})
    thief = Client(REMOTE_ADDR=ELSEWHERE)
    assert attempt(PASSWORD, ELSEWHERE, client=thief) == "in"  # up to the code

    def wrong_codes() -> list[bool]:
        answers = [
            thief.post("/account/factors/authenticate/", {"code": "000000"}) for _ in range(6)
        ]
        return ["Too many" in each.content.decode() for each in answers]

    assert wrong_codes() == [*[False] * 5, True]
    for number in range(400):  # what each stranger leaves who asks for a new password
        cache.set(f"allauth:rl:allauth.account:reset_password:20/m/ip:ip:{number}", [1], 60)
    assert wrong_codes() == [True] * 6

    cache.set("over", 1, -1)
    forget_expired()
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM accounts_cache WHERE expires < %s", [timezone.now()])
        assert cursor.fetchone() == (0,)
    assert wrong_codes()[0]
