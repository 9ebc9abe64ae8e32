"""Single sign-on: a user whose verified address is known here is let in; it creates no users."""

import json
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import pytest
from allauth.socialaccount.models import SocialAccount
from django.db.models.signals import pre_save
from django.dispatch import receiver
from django.test import Client
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from accounts.access import provider_calls
from accounts.models import User
from accounts.people import adapters
from accounts.people.address_proof import prove_account
from accounts.people.recovery import recover
from approvals.models import AuditEvent
from tests.accounts.test_sign_in import PASSWORD, signed_in
from tests.support.people.browser import browser

pytestmark = pytest.mark.django_db
DOOR = "/sign-in/sso/oidc/sso/login/"
ALICE: dict[str, Any] = {"email": "alice@lovelace.example", "email_verified": True}


@pytest.fixture
def provider(httpserver: HTTPServer, settings: Any) -> HTTPServer:
    """Return an OpenID provider on loopback."""
    base = httpserver.url_for("").rstrip("/")
    httpserver.expect_request("/.well-known/openid-configuration").respond_with_json(
        {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "userinfo_endpoint": f"{base}/userinfo",
            "jwks_uri": f"{base}/keys",
        }
    )
    httpserver.expect_request("/token").respond_with_json(
        {"access_token": "canary", "token_type": "Bearer"}
    )
    app = {
        "provider_id": "sso",
        "name": "Lovelace",
        "client_id": "id",
        "secret": "s",
        "settings": {"server_url": base},
    }
    settings.SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}
    }
    return httpserver


def come_in(provider: HTTPServer, *, state: str = "", **claims: Any) -> Client:
    provider.expect_request("/userinfo").respond_with_json({"sub": "7", **claims})
    window = Client()
    asked = parse_qs(urlsplit(window.post(DOOR)["Location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    window.get(f"{DOOR}callback/", {"code": "c", "state": state or asked["state"][0]})
    return window


def test_page_has_a_button_that_leads_to_the_provider(provider: HTTPServer) -> None:
    page = Client().get("/sign-in/")
    assert "Sign in with Lovelace" in page.content.decode()
    assert (
        f"form-action 'self' {provider.url_for('').rstrip('/')}" in page["Content-Security-Policy"]
    )


@pytest.mark.parametrize("said", [True, "true"])
def test_person_with_a_verified_address_signs_in(
    provider: HTTPServer, alice: User, said: object
) -> None:
    assert signed_in(come_in(provider, email=alice.email, email_verified=said))
    assert User.objects.count() == 1


def test_first_sign_on_leaves_the_other_ways_in(provider: HTTPServer, alice: User) -> None:
    """The library would take the password and the sessions: it does not know that the address is proven."""
    alice.set_password(PASSWORD)
    alice.save()
    prove_account(alice, how="command")
    before = Client()
    before.post("/sign-in/", {"login": alice.email, "password": PASSWORD})
    assert signed_in(come_in(provider, email=alice.email, email_verified=True))
    assert SocialAccount.objects.get().user == alice
    assert User.objects.get().check_password(PASSWORD)
    assert before.get("/").status_code == 200
    assert AuditEvent.objects.filter(event="sign_on_connected").count() == 1
    assert signed_in(come_in(provider, email="other@lovelace.example"))


def test_link_adds_no_parameter_to_the_question(provider: HTTPServer) -> None:
    added = urlencode({"auth_params": "client_id=evil&redirect_uri=https://evil", "scope": "mail"})
    asked = parse_qs(urlsplit(Client().post(f"{DOOR}?{added}")["Location"]).query)
    assert asked["client_id"] == ["id"]
    assert "evil" not in asked["redirect_uri"][0]
    assert "mail" not in asked["scope"][0].split()


@pytest.mark.parametrize(
    ("door", "text"),
    [
        *(("/userinfo", text) for text in ("[1]", "{}", "null", '{"sub": "7", "name": [1]}')),
        *(("/userinfo", json.dumps({"sub": sub} | ALICE)) for sub in (None, "", "x" * 300)),
        *(("/token", text) for text in ("5", '{"access_token": "a", "expires_in": "soon"}')),
        *(("/.well-known/openid-configuration", text) for text in ("{", "[]", "{}")),
    ],
)
def test_odd_answer_of_the_provider_lets_nobody_in(
    provider: HTTPServer, alice: User, door: str, text: str
) -> None:
    prove_account(alice, how="command")
    provider.expect_oneshot_request(door).respond_with_data(text, content_type="application/json")
    window = Client()
    answer = window.post(DOOR)
    if answer.status_code == 302:
        state = parse_qs(urlsplit(answer["Location"]).query)["state"][0]
        provider.expect_request("/userinfo").respond_with_json({"sub": "7"} | ALICE)
        answer = window.get(f"{DOOR}callback/", {"code": "c", "state": state})
    assert answer.status_code == 503
    assert not signed_in(window)
    assert not SocialAccount.objects.exists()


def test_answers_about_two_people_let_nobody_in(provider: HTTPServer, alice: User) -> None:
    """OpenID Connect Core 5.3.2: the answer of `userinfo` is not of the person of the ID token."""
    base = provider.url_for("").rstrip("/")
    about = {"iss": base, "aud": "id", "sub": "8", "exp": 4_102_444_800}
    told = {"access_token": "a", "id_token": jwt.encode(about, "k" * 32)}
    provider.expect_oneshot_request("/token").respond_with_json(told)
    assert not signed_in(come_in(provider, **ALICE))
    assert not SocialAccount.objects.exists()
    assert not AuditEvent.objects.filter(event="address_proven").exists()


def test_error_of_the_provider_is_said_on_a_page(provider: HTTPServer) -> None:
    provider.clear()
    assert Client().post(DOOR).status_code == 503


def test_few_sign_ins_wait_for_the_provider(
    provider: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_calls, "AT_ONCE", 0)
    assert Client().post(DOOR).status_code == 503
    assert provider.log == []


def test_sign_ins_of_a_network_are_counted_before_they_ask(
    provider: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "SIGN_ONS", replace(adapters.SIGN_ONS, amount=3))
    answers = [Client().post(DOOR).status_code for _ in range(5)]
    assert answers == [302, 302, 302, 503, 503]
    assert len(provider.log) == 3


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "alice@lovelace.example", "email_verified": False},
        {"email": "alice@lovelace.example", "email_verified": "false"},
        {"email": "alice@lovelace.example"},
        {"email": "nobody@lovelace.example", "email_verified": True},
        {},
    ],
)
def test_unknown_person_stays_outside(
    provider: HTTPServer, alice: User, claims: dict[str, Any]
) -> None:
    assert not signed_in(come_in(provider, **claims))
    assert User.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_linked_account_opens_none_that_was_closed_meanwhile(
    provider: HTTPServer, alice: User
) -> None:
    def tell(request: Request) -> Response:
        User.objects.filter(pk=alice.pk).update(is_active=False)
        return Response('{"sub": "7"}', content_type="application/json")

    provider.expect_request("/userinfo").respond_with_handler(tell)
    window = browser(alice)
    asked = parse_qs(urlsplit(window.post(f"{DOOR}?process=connect")["Location"]).query)
    window.get(f"{DOOR}callback/", {"code": "c", "state": asked["state"][0]})
    assert not User.objects.get(pk=alice.pk).is_active


@pytest.mark.django_db(transaction=True)
def test_no_account_is_linked_during_a_recovery(provider: HTTPServer, alice: User) -> None:
    def tell(request: Request) -> Response:
        recover(User.objects.get(pk=alice.pk))
        return Response('{"sub": "7"}', content_type="application/json")

    provider.expect_request("/userinfo").respond_with_handler(tell)
    window = browser(alice)
    asked = parse_qs(urlsplit(window.post(f"{DOOR}?process=connect")["Location"]).query)
    window.get(f"{DOOR}callback/", {"code": "c", "state": asked["state"][0]})
    assert not SocialAccount.objects.exists()
    assert not AuditEvent.objects.filter(event="sign_on_connected").exists()


def test_account_that_is_closed_is_not_linked(provider: HTTPServer, alice: User) -> None:
    prove_account(alice, how="command")
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert not signed_in(come_in(provider, **ALICE))
    assert not SocialAccount.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_first_sign_ons_at_once_are_no_error(provider: HTTPServer, alice: User) -> None:
    """The link is made while the other one is being made."""
    prove_account(alice, how="command")
    made = partial(SocialAccount.objects.create, user=alice, provider="sso", uid="7")

    @receiver(pre_save, sender=SocialAccount)
    def be_late(**_: Any) -> None:
        pre_save.disconnect(be_late, sender=SocialAccount)
        made()

    state = parse_qs(urlsplit((window := Client()).post(DOOR)["Location"]).query)["state"][0]
    provider.expect_request("/userinfo").respond_with_json({"sub": "7"} | ALICE)
    assert window.get(f"{DOOR}callback/", {"code": "c", "state": state}).status_code == 503
    assert signed_in(come_in(provider, **ALICE))


def test_answer_with_another_state_is_refused(provider: HTTPServer, alice: User) -> None:
    assert not signed_in(come_in(provider, state="other", email=alice.email, email_verified=True))


@pytest.mark.parametrize("way", ["password", "a sign-in", "nothing"])
def test_account_of_an_unproven_address_is_not_shared(
    provider: HTTPServer, alice: User, way: str
) -> None:
    """Refuse it: its creator could have set a password or kept a session, to wait for the owner."""
    if way == "password":
        alice.set_password("the maker's own password")
        alice.save()
    elif way == "a sign-in":
        Client().force_login(alice)

    window = come_in(provider, email=alice.email, email_verified=True)

    alice.refresh_from_db()
    assert signed_in(window) is (way == "nothing")
    assert (alice.address_proven_at is not None) is (way == "nothing")
    assert AuditEvent.objects.filter(event="sign_on_refused").exists() is (way != "nothing")

    prove_account(alice, how="command")
    assert signed_in(come_in(provider, email=alice.email, email_verified=True))
