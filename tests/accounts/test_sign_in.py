"""Sign-in by password, or by a one-time link that a GET request does not use up."""

import base64
import json
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal.auth import STATE_SESSION_KEY
from allauth.usersessions.models import UserSession
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from fido2.utils import websafe_encode
from fido2.webauthn import AuthenticatorData

from accounts.infra.credentials import CannotDecrypt, encrypt_text
from accounts.models import SignInLink, User
from tests.support.people.authenticator import code_of
from tests.support.people.browser import browser
from tests.support.people.passkey import Passkey

pytestmark = pytest.mark.django_db
PASSWORD = "a long and quiet password"


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


@pytest.fixture
def link(alice: User) -> str:
    return f"/sign-in/{SignInLink.issue(user=alice, lifetime=timedelta(minutes=5))}/"


@pytest.mark.parametrize(
    ("password", "in_"), [(PASSWORD, True), ("another one", False), ("", False)]
)
def test_password_signs_in(client: Client, alice: User, password: str, in_: bool) -> None:
    alice.set_password(PASSWORD)
    alice.save()

    client.post("/sign-in/", {"login": "ALICE@lovelace.example", "password": password})

    assert signed_in(client) is in_


def test_sign_in_without_a_set_password_fails(client: Client, alice: User) -> None:
    client.post("/sign-in/", {"login": alice.email, "password": ""})
    assert not signed_in(client)


def test_link_signs_in_only_when_its_button_is_pressed(client: Client, link: str) -> None:
    for _ in range(2):
        assert b'data-action="sign-in"' in client.get(link).content
        client.head(link)
    assert not signed_in(client)

    assert client.post(link).status_code == 302
    assert signed_in(client)

    other = Client()
    assert other.post(link).status_code == 410
    assert not signed_in(other)


@pytest.mark.parametrize("reason", ["too old", "person inactive", "unknown"])
def test_expired_link_says_so_and_signs_nobody_in(client: Client, link: str, reason: str) -> None:
    match reason:
        case "too old":
            SignInLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        case "person inactive":
            User.objects.update(is_active=False)
        case "unknown":
            link = "/sign-in/nonsense/"

    assert client.get(link).status_code == 410
    assert client.post(link).status_code == 410
    assert not signed_in(client)


def test_sign_in_returns_to_the_wanted_page_only(client: Client, alice: User) -> None:
    alice.set_password(PASSWORD)
    alice.save()
    who = {"login": alice.email, "password": PASSWORD}

    assert client.post("/sign-in/?next=/mailboxes/", who)["Location"] == "/mailboxes/"
    assert Client().post("/sign-in/?next=https://evil.example/", who)["Location"] == "/"


def test_guessing_delays_the_next_attempt_and_says_so(client: Client, alice: User) -> None:
    alice.set_password(PASSWORD)
    alice.save()
    for number in range(5):
        wrong = client.post("/sign-in/", {"login": alice.email, "password": f"wrong {number}"})
        assert b"is incorrect" in wrong.content

    locked = client.post("/sign-in/", {"login": alice.email, "password": PASSWORD})

    assert b"Too many attempts. Wait 2 seconds, then try again." in locked.content
    assert not signed_in(client)


def test_unknown_address_is_answered_like_a_wrong_password(client: Client, alice: User) -> None:
    alice.set_password(PASSWORD)
    alice.save()
    answers = [
        client.post("/sign-in/", {"login": email, "password": "wrong"}).content.replace(
            email.encode(), b""
        )
        for email in (alice.email, "nobody@lovelace.example")
    ]
    csrf = re.compile(rb'csrfmiddlewaretoken" value="[^"]*"')
    assert csrf.sub(b"", answers[0]) == csrf.sub(b"", answers[1])


def test_one_time_code_is_required_at_every_door(client: Client, alice: User, link: str) -> None:
    alice.set_password(PASSWORD)
    alice.is_staff = alice.is_superuser = True
    alice.save()
    window = browser(alice)
    page = window.get("/account/factors/totp/activate/")
    key = page.context["form"].secret
    assert window.post("/account/factors/totp/activate/", {"code": code_of(key)}).status_code == 302
    stored = Authenticator.objects.get(user=alice, type="totp").data["secret"]
    assert key not in stored

    for door in ("password", "link"):
        browser_ = Client()
        if door == "password":
            answer = browser_.post("/sign-in/", {"login": alice.email, "password": PASSWORD})
        else:
            answer = browser_.post(link)
        assert answer["Location"] == "/account/factors/authenticate/", door
        assert not signed_in(browser_)
        assert browser_.get("/admin/")["Location"].startswith("/admin/login/")
        assert (
            browser_.post("/account/factors/authenticate/", {"code": "000000"}).status_code == 200
        )
        assert not signed_in(browser_)
    recovery = (
        Authenticator.objects.get(user=alice, type="recovery_codes").wrap().get_unused_codes()[0]
    )
    assert browser_.post("/account/factors/authenticate/", {"code": recovery}).status_code == 302
    assert signed_in(browser_)
    assert browser_.get("/admin/").status_code == 200


def test_admin_has_no_sign_in_of_its_own(client: Client, alice: User) -> None:
    alice.set_password(PASSWORD)
    alice.is_staff = alice.is_superuser = True
    alice.save()
    asked = client.get("/admin/login/?next=/admin/")
    assert asked["Location"].startswith("/sign-in/?next=")
    client.post("/admin/login/", {"username": alice.email, "password": PASSWORD})
    assert not signed_in(client)
    assert (
        browser(User.objects.create_user("bob@lovelace.example")).get("/admin/login/").status_code
        == 403
    )


def test_sessions_are_listed_and_can_be_ended(alice: User) -> None:
    alice.set_password(PASSWORD)
    alice.save()
    here, there, elsewhere = Client(), Client(headers={"user-agent": "Other/1.0"}), Client()
    for window in (here, there, elsewhere):
        window.post("/sign-in/", {"login": alice.email, "password": PASSWORD})
    listed = here.get("/account/").content.decode()
    assert "Other/1.0" in listed
    assert listed.count('data-action="end-session"') == 2

    one = UserSession.objects.get(user_agent="Other/1.0")
    assert (
        browser(User.objects.create_user("eve@x.example"))
        .post(f"/account/sessions/{one.pk}/end/")
        .status_code
        == 404
    )
    here.post(f"/account/sessions/{one.pk}/end/")
    assert there.get("/").status_code == 302
    assert elsewhere.get("/").status_code == 200
    here.post("/account/sessions/end-others/")
    assert elsewhere.get("/").status_code == 302
    assert here.get("/").status_code == 200


def test_nobody_signs_up(client: Client) -> None:
    for path in ("/account/signup/", "/accounts/signup/", "/signup/"):
        assert client.get(path).status_code == 404


def test_one_time_codes_survive_a_change_of_the_server_key(alice: User, settings: Any) -> None:
    window = browser(alice)
    key = window.get("/account/factors/totp/activate/").context["form"].secret
    window.post("/account/factors/totp/activate/", {"code": code_of(key)})
    new = base64.b64encode(b"n" * 32).decode()
    settings.MAILHUB_ENCRYPTION_KEYS = [new, *settings.MAILHUB_ENCRYPTION_KEYS]

    call_command("rotate_keys", stdout=StringIO())

    settings.MAILHUB_ENCRYPTION_KEYS = [new]
    totp, recovery = (
        Authenticator.objects.get(user=alice, type=each).wrap()
        for each in ("totp", "recovery_codes")
    )
    cache.clear()  # a code is valid only once
    assert totp.validate_code(code_of(key))
    assert len(recovery.get_unused_codes()) == 10


def test_one_time_key_moved_to_another_person_is_invalid(alice: User, bob: User) -> None:
    for person in (alice, bob):
        window = browser(person)
        key = window.get("/account/factors/totp/activate/").context["form"].secret
        window.post("/account/factors/totp/activate/", {"code": code_of(key)})
    for sort in ("totp", "recovery_codes"):
        mine, other = (Authenticator.objects.get(user=person, type=sort) for person in (bob, alice))
        Authenticator.objects.filter(pk=other.pk).update(data=mine.data)

    moved, recovery = (
        Authenticator.objects.get(user=alice, type=each).wrap()
        for each in ("totp", "recovery_codes")
    )
    cache.clear()  # a code is valid only once
    with pytest.raises(CannotDecrypt):
        moved.validate_code(code_of(key))
    with pytest.raises(CannotDecrypt):
        recovery.get_unused_codes()
    assert Authenticator.objects.get(user=bob, type="totp").wrap().validate_code(code_of(key))


def test_one_time_key_of_an_earlier_version_works(alice: User) -> None:
    window = browser(alice)
    key = window.get("/account/factors/totp/activate/").context["form"].secret
    window.post("/account/factors/totp/activate/", {"code": code_of(key)})
    old = encrypt_text(key, bound_to="mfa_authenticator")
    Authenticator.objects.filter(user=alice, type="totp").update(data={"secret": old})
    cache.clear()  # a code is valid only once
    assert Authenticator.objects.get(user=alice, type="totp").wrap().validate_code(code_of(key))

    call_command("rotate_keys", stdout=StringIO())

    found = Authenticator.objects.get(user=alice, type="totp")
    assert found.data["secret"].startswith("mhseal1:")
    cache.clear()
    assert found.wrap().validate_code(code_of(key))


@pytest.mark.parametrize(
    "door", ["webauthn/login/", "authenticate/", "webauthn/reauthenticate/", "webauthn/add/"]
)
def test_answer_of_another_shape_is_refused(alice: User, door: str) -> None:
    passkey, begins = Passkey(alice), {"webauthn/login/": Client(), "authenticate/": Client()}
    alice.set_password(PASSWORD)
    alice.save()
    window = begins.get(door) or browser(alice)
    if door == "authenticate/":
        window.post("/sign-in/", {"login": alice.email, "password": PASSWORD})
    whole = json.loads(passkey.sign("AAAA"))
    deep = websafe_encode(bytes(32) + b"\x81" + bytes(4) + b"\x81" * 20_000)
    parts = {"authenticatorData": deep, "attestationObject": websafe_encode(b"\x81" * 9_000)}
    odd_members: list[dict[str, Any]] = [
        {"clientExtensionResults": 1},
        {"response": {}},
        {"response": whole["response"] | parts},
    ]
    for odd in odd_members:
        window.get(f"/account/factors/{door}", headers={"X-Requested-With": "XMLHttpRequest"})
        answer = whole | odd
        form = {"credential": json.dumps(answer)}
        assert window.post(f"/account/factors/{door}", form).status_code in (200, 302)


def test_passkeys_of_a_person_have_limits(alice: User) -> None:
    """Nobody could store megabytes in them, which each sign-in of that person then reads."""
    window, passkey = browser(alice), Passkey(alice)
    mine = Authenticator.objects.filter(user=alice, type=Authenticator.Type.WEBAUTHN)

    def add(**more: Any) -> Any:
        asked = window.get("/account/factors/webauthn/add/").context["js_data"]
        challenge = asked["creation_options"]["publicKey"]["challenge"]
        answer = json.dumps(json.loads(passkey.register(challenge)) | more)
        form = {"name": "n" * 200, "credential": answer}
        return window.post("/account/factors/webauthn/add/", form)

    assert add(more="x" * 16_384).status_code == 200
    assert mine.count() == 1
    assert add().status_code == 302
    added = mine.latest("pk")
    assert len(added.data["name"]) == 100
    address = f"/account/factors/webauthn/keys/{added.pk}/edit/"
    assert window.post(address, {"name": "n" * 101}).status_code == 200
    assert window.post(address, {"name": "Laptop"}).status_code == 302
    added.refresh_from_db()
    assert added.data["name"] == "Laptop"

    for _ in range(18):
        Passkey(alice)
    assert "You have 20 passkeys. Remove one first." in add().content.decode()
    assert mine.count() == 20


def test_passkey_alone_answers_no_challenge_of_a_second_step(
    alice: User, charlie: User, settings: Any
) -> None:
    """A stolen key without a PIN would otherwise sign in as its owner."""
    door, stolen = "/account/factors/webauthn/login/", Passkey(alice)
    charlie.set_password(PASSWORD)
    charlie.save()
    Passkey(charlie)
    window = Client()
    window.post("/sign-in/", {"login": charlie.email, "password": PASSWORD})
    window.get("/account/factors/authenticate/")
    challenge = window.session[STATE_SESSION_KEY]["challenge"]
    settings.ACCOUNT_LOGIN_TIMEOUT = -1  # the second step is over, and its challenge stays
    window.post(door, {"credential": stolen.sign(challenge, AuthenticatorData.FLAG.UP)})
    assert not signed_in(window)

    asked = window.get(door, headers={"X-Requested-With": "XMLHttpRequest"}).json()
    challenge = asked["request_options"]["publicKey"]["challenge"]
    window.post(door, {"credential": stolen.sign(challenge)})
    assert signed_in(window)
