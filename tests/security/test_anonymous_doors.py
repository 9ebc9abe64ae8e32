"""Every door that a stranger can reach: it counts before it works, and its refusal costs little."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from allauth.idp.oidc.models import Client as Registered
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.models import Session
from django.test import Client

from accounts.access.quotas import take
from accounts.infra.networks import network_of_address
from accounts.oauth import cleanup, programs
from tests.security.test_every_door import URLS, Belongings, belongings

__all__ = ["belongings"]
pytestmark = pytest.mark.django_db(transaction=True)
ODD = {
    "client_name": "x",
    "redirect_uris": ["https://[::1/cb"],
    "grant_types": ["authorization_code"],
    "client_id": "x",
    "client_secret": "x",
    "grant_type": "refresh_token",
    "refresh_token": "x",
}


def cpu_of(limit: float, ask: Callable[..., Any], path: str, **sent: Any) -> float:
    """Return the processor seconds of a request. One above the limit is asked twice more, as the
    first one may load modules and templates.
    """
    found = []
    for _ in range(3):
        began = time.process_time()
        ask(path, **sent)
        found.append(time.process_time() - began)
        if found[-1] <= limit:
            break
    return min(found)


def test_no_refusal_costs_as_much_as_a_password_hash(belongings: Belongings, settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    began = time.process_time()
    make_password("x")
    hashing = time.process_time() - began
    form: dict[str, Any] = {
        "data": {**belongings.form, **{name: str(value) for name, value in ODD.items()}}
    }
    documents = [ODD, {**ODD, "redirect_uris": ["https://helper.example/cb"]}]
    bodies: list[dict[str, Any]] = [
        {"data": json.dumps(each), "content_type": "application/json"} for each in documents
    ]
    dear = []
    for name, route in URLS:
        client, path = Client(raise_request_exception=False), belongings.address(route)
        dearest = bodies if "register" in route else bodies[-1:]
        costs = [cpu_of(hashing / 2, client.post, path, **sent) for sent in (form, *dearest)]
        costs.append(cpu_of(hashing / 2, client.get, path))
        if max(costs) > hashing / 2:
            dear.append((name, *costs))
    assert dear == []


def test_form_of_a_stranger_is_kept_nowhere(belongings: Belongings) -> None:
    """The sign-in library would keep it until somebody signs in."""
    kept = []
    for name, route in URLS:
        Client(raise_request_exception=False).post(
            belongings.address(route), {"code": "x" * 60_000}
        )
        if Session.objects.exists():
            kept.append(name)
            Session.objects.all().delete()
    assert kept == []


def test_wrong_registrations_are_counted() -> None:
    client = Client()
    answers = [
        client.post("/oauth/register", "[", content_type="application/json").status_code
        for _ in range(programs.OF_NETWORK.amount + 1)
    ]
    assert set(answers[:-1]) == {400}
    assert answers[-1] == 429


def test_one_network_keeps_no_other_one_out() -> None:
    for number in range(300 // programs.OF_NETWORK.amount):
        take(programs.OF_NETWORK, network_of_address(f"198.51.{number}.1"), 20)
    given = {"client_name": "Helper", "redirect_uris": ["https://helper.example/cb"]}
    answer = Client().post("/oauth/register", given, content_type="application/json")
    assert answer.status_code == 201


def test_only_the_newest_unused_programs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "UNUSED_PROGRAMS", 2)
    uris = ["https://helper.example/cb"]
    made = [programs.register(f"Program {n}", uris, device=False).pk for n in range(4)]
    known = programs.add("Known", uris)
    cleanup.forget_old()
    assert set(Registered.objects.values_list("pk", flat=True)) == {*made[2:], known.pk}
